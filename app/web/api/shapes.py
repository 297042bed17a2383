"""The shapes of answers, as types. `replies.reply_view` makes most of them; a test holds every answer to its type."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from app.core.errors import Action
from app.core.ids import ChatId, EndpointId, FileId, MessageId, ModelId, ReplyId, UserId
from app.core.messages import Outcome, StopReason
from app.core.reply import Phase
from app.web.api.schema import such

Time = Annotated[str, such(format="date-time", description="RFC 3339, UTC")]
Count = Annotated[int, such(minimum=0, maximum=2**53)]
Pick = Annotated[str, such(minLength=1, maxLength=100, description="The id of a model")]
Cursor = Annotated[str, such(maxLength=200, description="`next` of the piece before")]

Role = Literal["admin", "member"]
Scope = Literal["all", "read", "chat"]


class Problem(TypedDict):
    """Why a request was refused or failed (RFC 9457). `type` is the stable name."""

    type: str
    title: str
    status: int
    detail: str
    field: NotRequired[Annotated[str, such(description="The field at fault")]]
    reply: NotRequired[Annotated[ReplyId, such(description="The reply that holds the chat")]]
    request: NotRequired[Annotated[str, such(description="The short id in the server's log")]]


class Status(TypedDict):
    """How the server is."""

    status: Literal["ok"]


# --- messages ---------------------------------------------------------------------------------------------


class Text(TypedDict):
    """Text: of a person as typed, of a model markdown."""

    type: Literal["text"]
    text: str


class Reasoning(TypedDict):
    """What the model thought, and for how long."""

    type: Literal["reasoning"]
    text: str
    ms: int


class ToolUse(TypedDict):
    """A call that the model asked for; `input` is null where its arguments are no JSON object."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any] | None


class ToolResult(TypedDict):
    """What came of a call."""

    type: Literal["tool_result"]
    id: str
    outcome: Outcome
    text: str
    ms: int


class Attachment(TypedDict):
    """A file that was sent along."""

    type: Literal["image", "document"]
    file: FileId
    name: str


Part = Text | Reasoning | ToolUse | ToolResult | Attachment


class Counts(TypedDict):
    """The tokens of one model call; reasoning counts as output, what came from a cache as input."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    estimated: bool
    cost: float | None


class Message(TypedDict):
    """One speaker's turn. `siblings` are its versions, itself among them. Without `position`: not stored yet."""

    id: MessageId | None
    role: Literal["user", "assistant", "tool"]
    created: Time
    position: int | None
    reply: ReplyId | None
    parent: MessageId | None
    siblings: list[MessageId]
    queued: bool
    parts: list[Part]
    model: NotRequired[str | None]
    endpoint: NotRequired[str | None]
    stop_reason: NotRequired[StopReason | None]
    usage: NotRequired[Counts | None]


# --- replies ----------------------------------------------------------------------------------------------


class Usage(TypedDict):
    """The tokens of a reply, all rounds together; `context_tokens` is the last prompt plus what it wrote."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    context_tokens: int
    context_limit: int
    estimated: bool
    cost: float | None


class Fault(TypedDict):
    """Why a reply failed or was cut, in the person's words, and what helps."""

    text: str
    code: str
    actions: list[Action]


class Warning(TypedDict):
    """Something to know that did not end the reply."""

    code: str
    text: str


class Reply(TypedDict):
    """The answer to one accepted input. `text` and `reasoning` are those of all its messages together."""

    id: ReplyId
    chat: ChatId
    state: Phase
    text: str
    reasoning: str
    messages: list[Message]
    usage: Usage | None
    model: str | None
    input: MessageId
    continues: ReplyId | None
    created: Time
    started: Time | None
    ended: Time | None
    error: NotRequired[Fault]
    stop_reason: NotRequired[StopReason | None]
    reason: NotRequired[str]
    next: NotRequired[ReplyId | None]
    endpoint: NotRequired[str | None]
    status: NotRequired[str]
    warnings: NotRequired[list[Warning]]


class Accepted(TypedDict):
    """A message that is stored, with its reply, or none while it is queued."""

    message: Message
    reply: Reply | None
    queued: bool


class Sent(TypedDict):
    """What was sent for one model call of a reply: stored messages by their ids, and what is stored nowhere else."""

    message: MessageId
    at: Time
    model: str
    endpoint: str
    request: dict[str, Any]


# --- chats ------------------------------------------------------------------------------------------------


class ChatListed(TypedDict):
    """A chat as lists show it. `waiting`: its running reply waits for a person."""

    id: ChatId
    kind: Literal["chat", "agent"]
    title: str
    folder: str | None
    pinned: bool
    archived: bool
    unread: bool
    active: Time
    running_reply: ReplyId | None
    waiting: bool


class Chat(ChatListed):
    """A chat. `leaf` is the end of its current branch; `model` null: the default one answers."""

    created: Time
    model: ModelId | None
    temporary: bool
    leaf: MessageId | None


class ChatOpened(Chat):
    """A chat with the last messages of its current branch, and what waits for its turn."""

    messages: list[Message]
    queued: list[Message]
    interaction: None


class Hit(TypedDict):
    """Words found: in the message, or in the title of the chat where that is null. `snippet` is HTML: escaped, with
    the found words in `<mark>`."""

    id: ChatId
    title: str
    message: MessageId | None
    snippet: str
    at: Time


class Draft(TypedDict):
    """What was typed and not sent."""

    text: str


# --- models -----------------------------------------------------------------------------------------------


class Sampling(TypedDict, total=False):
    """How the model is to choose its words."""

    temperature: Annotated[float, such(minimum=0, maximum=10)]
    top_p: Annotated[float, such(minimum=0, maximum=1)]
    seed: Annotated[int, such(minimum=-(2**31), maximum=2**31)]
    stop: Annotated[list[Annotated[str, such(minLength=1, maxLength=200)]], such(maxItems=16)]
    reasoning_effort: Annotated[str, such(minLength=1, maxLength=40)]


class Model(TypedDict):
    """A model that can be picked. `context_length` 0: unknown. `endpoint` is the name of where it is."""

    id: ModelId
    name: str
    endpoint: str
    context_length: int
    capabilities: list[str]
    default: bool


class ModelKept(TypedDict):
    """A model as it is administered. Prices are for a million tokens; `vanished`: its endpoint lists it no more."""

    id: ModelId
    name: str
    wire_name: str
    enabled: bool
    vanished: bool
    context_length: int
    max_output: int
    price_input: float | None
    price_output: float | None
    price_cached: float | None
    capabilities: list[str]
    sampling: dict[str, Any]


class Secret(TypedDict):
    """A secret is never read back: only whether there is one."""

    set: bool


class Endpoint(TypedDict):
    """Where models are reached. `fault` says what went wrong when it was last asked, `idle_timeout` is in seconds."""

    id: EndpointId
    name: str
    api: str
    base_url: str
    api_key: Secret
    came_from: str
    enabled: bool
    idle_timeout: int
    created: Time
    checked: Time | None
    fault: str | None
    models: list[ModelKept]


# --- files ------------------------------------------------------------------------------------------------


class File(TypedDict):
    """An uploaded file. `type` was decided from its content, `size` is in bytes."""

    id: FileId
    sha256: str
    name: str
    type: str
    size: int


# --- people -----------------------------------------------------------------------------------------------


class User(TypedDict):
    """Somebody with an account."""

    id: UserId
    name: str
    role: Role
    disabled: bool
    created: Time


class Invited(User):
    """A new account. `link` is the path of the one sign-in by which its person comes in; told once, and null where a
    password was given."""

    link: str | None


class Link(TypedDict):
    """The path of a one-time sign-in; told once."""

    link: str


class Audit(TypedDict):
    """A line of the audit log, bound to the one before by its hash."""

    seq: int
    at: Time
    actor: UserId | None
    actor_name: str
    action: str
    target: str
    detail: dict[str, Any]
    address: str
    previous: str
    hash: str
