// Follows what happens to the chat that the page shows: the reply that is being written, frame by frame, and what the
// server tells the person. Settled text is never touched; of the open block only what differs is changed.
import { register } from "../lib/controllers.js";
import { refresh } from "../lib/refresh.js";
import { openStream } from "../lib/stream.js";
import { fragment, morph, morphChildren } from "../lib/trusted.js";

const PERSON = ["snapshot", "chat", "queue", "reply", "card", "toast"];
const FRAMES = ["sync", "open", "block", "redraw", "tail", "close", "fragment", "meter", "ended"];

const replyElement = (id) => document.getElementById(`reply-${id}`);
// What fails here the stream tells of, or the next event makes good.
const update = () => refresh().catch(() => {});
const announce = (name, detail) => document.dispatchEvent(new CustomEvent(`nd:${name}`, { detail }));

register("follow", (transcript) => {
  const chat = transcript.dataset.chat;
  let reply = "";
  let writing = null;
  let held = [];
  let missing = 0;

  const stream = openStream({
    address: () => `${transcript.dataset.events}?${new URLSearchParams({ chat, reply, after: stream.after })}`,
    events: [...PERSON, ...FRAMES],
    hear: (name, data) => (PERSON.includes(name) ? hearPerson(name, data) : take(name, data)),
    tell: (link) => announce("link", link),
    poll: update,
  });
  follow(busyReply());
  if (!reply) stream.restart();

  function busyReply() {
    return transcript.querySelector(':scope > .reply[aria-busy="true"]')?.id.replace("reply-", "") ?? "";
  }

  // From what the page shows of it: it may have been drawn a moment ago, and drawn anew while it is followed.
  function follow(id) {
    const { run, seq } = replyElement(id)?.dataset ?? {};
    const point = run ? `${run}-${seq}` : "";
    if (id === reply && point === stream.after) return;
    reply = id;
    stream.after = point;
    begin();
    stream.restart();
  }

  function begin() {
    held = [];
    writing = null;
    const blocks = [...(replyElement(reply)?.querySelectorAll(".blocks[data-settled]") ?? [])].pop();
    if (blocks) writing = new Writing(blocks);
  }

  function hearPerson(name, data) {
    announce(name, data);
    if (name !== "reply" || data.chat !== chat || data.id === reply) return;
    // Started on another device, or by this page a moment ago: then its own answer brings it.
    clearTimeout(missing);
    missing = setTimeout(() => {
      const there = replyElement(data.id);
      if (!there || there.getAttribute("aria-busy") !== String(["accepted", "running", "waiting"].includes(data.state))) update();
      else follow(busyReply());
    }, 700);
  }

  // What is settled is placed together with the open block behind it, which always follows: nothing flickers.
  function take(name, data) {
    if (name === "block") { held.push(data); return; }
    for (const block of held) if (writing?.id === block.segment) writing.settle(block);
    held = [];
    ACTS[name](data);
  }

  const ACTS = {
    sync({ reply: id, html }) {
      const article = replyElement(id);
      if (!article) { update(); return; }
      if (morph(article, html).getAttribute("aria-busy") !== "true") over({ reply: id });
      else begin();
    },
    open({ segment, html }) {
      const article = replyElement(reply);
      if (!article) return;
      if (!document.getElementById(segment)) article.querySelector(":scope > .segments").append(fragment(html));
      const blocks = document.getElementById(segment).querySelector(".blocks[data-settled]");
      writing = blocks ? new Writing(blocks) : null;
    },
    tail(frame) { writing?.draw(frame); },
    redraw({ segment, block, html }) {
      const element = document.getElementById(segment)?.querySelector(".blocks");
      if (element) redrawBlock(element, block, html);
    },
    close({ segment, label }) {
      const element = document.getElementById(segment);
      if (element && writing?.id === segment) writing.close(label);
      writing = null;
    },
    fragment({ id, html }) {
      const element = document.getElementById(id);
      if (element) morph(element, html);
    },
    meter({ rate, share }) {
      const set = (name, text) => { const place = document.querySelector(`#status [data-meter="${name}"]`); if (place) place.textContent = text; };
      if (rate !== undefined) set("rate", `${rate} tokens/s`);
      if (share === undefined) return;
      set("share", `${share} % of context`);
      const bar = document.querySelector('#status [data-meter="share-bar"]');
      if (bar) bar.value = share;
    },
    ended(frame) {
      const article = replyElement(frame.reply);
      if (article) finish(article, frame.html);
      over(frame);
      if (frame.next && !replyElement(frame.next)) update();
    },
  };

  function over(frame) {
    if (frame.reply === reply) { reply = ""; stream.after = ""; writing = null; }
    announce("ended", { reply: frame.reply, state: replyElement(frame.reply)?.dataset.phase });
  }

  const told = (event) => follow(event.detail.reply);
  document.addEventListener("nd:follow", told);
  return () => {
    stream.close();
    clearTimeout(missing);
    document.removeEventListener("nd:follow", told);
  };
});

// The segment that is being written. Its first `settled` blocks are final; where the last of these still grows (a list
// by items, say), so are its first `parts`. What follows is the open block, drawn from the HTML `text`.
class Writing {
  constructor(blocks) {
    this.blocks = blocks;
    this.id = blocks.closest(".segment").id;
    this.settled = Number(blocks.dataset.settled);
    this.parts = blocks.dataset.parts === undefined ? null : Number(blocks.dataset.parts);
    this.text = "";
  }

  draw({ keep, rest }) {
    this.text = this.text.slice(0, keep) + rest;
    this.place(this.text);
    const last = this.blocks.closest("[data-open]")?.querySelector("[data-last]");
    if (last) last.textContent = lastLine(this.blocks);
  }

  settle({ keep, rest, settled, parts = null, loose }) {
    const text = this.text.slice(0, keep) + rest;
    this.text = "";
    if (!this.isNews(settled, parts)) return;
    if (loose) this.blocks.children[this.settled - 1].classList.add("loose");
    this.place(text, { settling: true, ends: parts === null });
    this.settled = settled;
    this.parts = parts;
    this.blocks.dataset.settled = settled;
    if (parts === null) delete this.blocks.dataset.parts;
    else this.blocks.dataset.parts = parts;
  }

  // A frame may come twice, after a lost line; settled blocks only ever become more.
  isNews(settled, parts) {
    if (settled !== this.settled) return settled > this.settled;
    return this.parts !== null && (parts === null || parts > this.parts);
  }

  // Puts `text` behind what is settled. While `settling`, what stands behind that stays: the open block is to follow.
  // `ends`: the last settled block grows no more.
  place(text, { settling = false, ends = false } = {}) {
    const fresh = fragment(text);
    const frame = fresh.firstElementChild?.matches("[data-joins]") ? fresh.firstElementChild : null;
    const joining = frame ? [...frame.childNodes] : [];
    frame?.remove();
    if (this.parts !== null) {
      const most = settling && !ends ? joining.length : Infinity;
      morphChildren(growing(this.blocks.children[this.settled - 1]), joining, this.parts, most);
    }
    morphChildren(this.blocks, fresh.childNodes, this.settled, settling ? fresh.childNodes.length : Infinity);
  }

  close(label) {
    this.place("");
    delete this.blocks.dataset.settled;
    delete this.blocks.dataset.parts;
    const folded = this.blocks.closest("[data-open]");
    if (!folded) return;
    folded.removeAttribute("data-open");
    folded.querySelector("[data-label]").textContent = label ?? "Thought";
    folded.querySelector("[data-last]").textContent = "";
  }
}

// Where the parts of a block stand that grows.
function growing(block) {
  return block.querySelector(":scope > pre > code") ?? block;
}

function lastLine(blocks) {
  const lines = (blocks.lastElementChild?.textContent ?? "").trimEnd().split("\n");
  return lines[lines.length - 1].slice(-200);
}

function redrawBlock(blocks, number, text) {
  const block = blocks.children[number];
  if (!block) return;
  const last = Number(blocks.dataset.settled) - 1;
  if (number === last && blocks.dataset.parts !== undefined) {
    const parts = Number(blocks.dataset.parts);
    morphChildren(growing(block), growing(fragment(text).firstElementChild).childNodes, 0, parts);
  } else {
    morph(block, text);
  }
}

// The end of a reply: all around its segments is drawn anew, they themselves stay as they are.
function finish(article, text) {
  const fresh = fragment(text).firstElementChild;
  const segments = article.querySelector(":scope > .segments");
  const place = fresh.querySelector(":scope > .segments");
  for (const [old, now] of [[article, fresh], [segments, place]]) {
    for (const { name } of [...old.attributes]) if (!now.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of now.attributes) old.setAttribute(name, value);
  }
  for (const node of [...article.childNodes]) if (node !== segments) node.remove();
  let before = true;
  for (const node of [...fresh.childNodes]) {
    if (node === place) before = false;
    else if (before) segments.before(node);
    else article.append(node);
  }
}
