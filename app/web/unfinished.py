"""Making text that is still being written look as it will when it is finished."""


def presentable(whole: str, partial: str) -> str:
    """The whole lines of an open block and the line that is being written, as they should be drawn now."""
    return whole + partial
