// Which part of a reply is still being written: its open block is drawn again with every frame and must be left alone.
// `data-settled` counts the blocks that are settled; with `data-parts` the last of them still grows.

export function isBeingWritten(node) {
  const blocks = node.closest(".blocks[data-settled]");
  if (!blocks) return false;
  const settled = Number(blocks.dataset.settled) - (blocks.dataset.parts === undefined ? 0 : 1);
  return [...blocks.children].findIndex((block) => block.contains(node)) >= settled;
}
