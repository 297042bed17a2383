"""The ORM tables. Ids are UUIDv7 text, times are Unix milliseconds UTC, order comes from positions.

JSON columns hold only what has somebody else's shape (tool input, provider data) or is used as a whole.
Each issue adds the tables that it fills, with a migration.
"""

from typing import Any, ClassVar

from sqlalchemy import JSON, CheckConstraint, ForeignKey, Index, UniqueConstraint, text as sql
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# An absent value is SQL's NULL, never the JSON text `null`.
Json = JSON(none_as_null=True)


# A reply that holds its chat's lane. Queries write it out like this: bound values would not match the index.
IN_LANE = "phase IN ('accepted','running','waiting')"


class Base(DeclarativeBase):
    type_annotation_map: ClassVar[dict[Any, Any]] = {dict[str, Any]: Json, list[str]: Json, list[int]: Json}


# --- people -----------------------------------------------------------------------------------------------


class User(Base):
    __tablename__ = "user"
    id: Mapped[str] = mapped_column(primary_key=True)
    # The name as typed, and folded (NFKC, casefold) so that no two people differ only in case.
    name: Mapped[str]
    name_folded: Mapped[str] = mapped_column(unique=True)
    role: Mapped[str]  # admin | member
    password: Mapped[str | None]  # an Argon2id hash; None: signs in by link alone
    disabled: Mapped[bool] = mapped_column(default=False)
    created: Mapped[int]
    preferences: Mapped[dict[str, Any]] = mapped_column(default=dict)
    __table_args__ = (CheckConstraint("role IN ('admin', 'member')", name="user_role"),)


class LoginSession(Base):
    __tablename__ = "login_session"
    id: Mapped[str] = mapped_column(primary_key=True)
    user: Mapped[str] = mapped_column(ForeignKey("user.id", ondelete="CASCADE"), index=True)
    token_hash: Mapped[str] = mapped_column(unique=True)  # SHA-256 of the cookie's token
    csrf: Mapped[str]
    created: Mapped[int]
    seen: Mapped[int]
    expires: Mapped[int]
    agent: Mapped[str]
    address: Mapped[str]


class ApiKey(Base):
    __tablename__ = "api_key"
    id: Mapped[str] = mapped_column(primary_key=True)
    user: Mapped[str] = mapped_column(ForeignKey("user.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    scope: Mapped[str]  # all | read | chat
    hash: Mapped[str] = mapped_column(unique=True)
    prefix: Mapped[str]  # the first characters, to tell keys apart in a list
    created: Mapped[int]
    seen: Mapped[int | None]


class OneTimeLink(Base):
    """The setup link and sign-in links; claimed by one conditional UPDATE."""

    __tablename__ = "one_time_link"
    id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]  # setup | sign-in
    user: Mapped[str | None] = mapped_column(ForeignKey("user.id", ondelete="CASCADE"))
    token_hash: Mapped[str] = mapped_column(unique=True)
    created: Mapped[int]
    expires: Mapped[int]
    used: Mapped[int | None]


class Secret(Base):
    """An encrypted value. Its associated data is this row's owner, field, origin and key version."""

    __tablename__ = "secret"
    owner: Mapped[str] = mapped_column(primary_key=True)  # the id of the row it belongs to
    field: Mapped[str] = mapped_column(primary_key=True)
    origin: Mapped[str]  # scheme://host:port it may be sent to; "" where it is sent nowhere
    key_version: Mapped[int]
    sealed: Mapped[bytes]


class DataKey(Base):
    """A data key, wrapped by the master key that is kept outside the database."""

    __tablename__ = "data_key"
    version: Mapped[int] = mapped_column(primary_key=True)
    wrapped: Mapped[bytes]
    created: Mapped[int]


class Audit(Base):
    """Append-only (triggers refuse UPDATE and DELETE) and hash-chained."""

    __tablename__ = "audit"
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[int]
    actor: Mapped[str | None]
    actor_name: Mapped[str]
    action: Mapped[str]
    target: Mapped[str]
    detail: Mapped[dict[str, Any]] = mapped_column(default=dict)
    address: Mapped[str]
    previous: Mapped[str]
    hash: Mapped[str]


class Usage(Base):
    """The ledger: one row per model call, kept when the chat or the person is gone."""

    __tablename__ = "usage"
    id: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[int] = mapped_column(index=True)
    user: Mapped[str] = mapped_column(index=True)
    chat: Mapped[str | None]
    reply: Mapped[str | None] = mapped_column(index=True)
    role: Mapped[str]  # chat | title | compact | extract | embed
    model: Mapped[str]
    model_name: Mapped[str]
    endpoint: Mapped[str]
    input_tokens: Mapped[int]
    output_tokens: Mapped[int]
    cache_read_tokens: Mapped[int]
    cache_write_tokens: Mapped[int]
    reasoning_tokens: Mapped[int]
    estimated: Mapped[bool]
    cost: Mapped[float | None]


# --- settings, endpoints, models --------------------------------------------------------------------------


class Setting(Base):
    __tablename__ = "setting"
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[dict[str, Any]]  # {"value": ...}: a JSON value of any kind


class Endpoint(Base):
    __tablename__ = "endpoint"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    api: Mapped[str]  # openai-chat | scripted | local, and with their issue the others
    base_url: Mapped[str]
    came_from: Mapped[str]  # person | environment | discovered | embedded
    enabled: Mapped[bool] = mapped_column(default=True)
    idle_timeout: Mapped[int]  # seconds
    created: Mapped[int]
    checked: Mapped[int | None]
    fault: Mapped[str | None]  # the person's text of the last failed check


class Model(Base):
    __tablename__ = "model"
    id: Mapped[str] = mapped_column(primary_key=True)
    endpoint: Mapped[str] = mapped_column(ForeignKey("endpoint.id", ondelete="CASCADE"), index=True)
    wire_name: Mapped[str]
    name: Mapped[str]
    enabled: Mapped[bool] = mapped_column(default=True)
    vanished: Mapped[bool] = mapped_column(default=False)  # no longer listed by its endpoint
    context_length: Mapped[int] = mapped_column(default=0)  # 0: unknown
    max_output: Mapped[int] = mapped_column(default=0)
    price_input: Mapped[float | None]  # per million tokens
    price_output: Mapped[float | None]
    price_cached: Mapped[float | None]
    capabilities: Mapped[list[str]] = mapped_column(default=list)
    sampling: Mapped[dict[str, Any]] = mapped_column(default=dict)
    edited: Mapped[list[str]] = mapped_column(default=list)  # the fields a person set: a refresh keeps them
    position: Mapped[int] = mapped_column(default=0)
    __table_args__ = (UniqueConstraint("endpoint", "wire_name"),)


# --- chats ------------------------------------------------------------------------------------------------


class Chat(Base):
    __tablename__ = "chat"
    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(ForeignKey("user.id", ondelete="CASCADE"))
    kind: Mapped[str]  # chat | agent
    title: Mapped[str]
    title_from: Mapped[
        str
    ]  # none | opening | model | person: a later one of these never yields to an earlier
    folder: Mapped[str | None]
    pinned: Mapped[bool] = mapped_column(default=False)
    archived: Mapped[bool] = mapped_column(default=False)
    temporary: Mapped[bool] = mapped_column(default=False)
    model: Mapped[str | None]  # the model picked for this chat; None: the default
    leaf: Mapped[str | None]  # the last message of the current branch
    unread: Mapped[bool] = mapped_column(default=False)
    created: Mapped[int]
    active: Mapped[int]  # when something last happened in it: the order of the list
    next_position: Mapped[int] = mapped_column(default=1)
    __table_args__ = (
        Index(
            "chat_list",
            "owner",
            "archived",
            "temporary",
            sql("pinned DESC"),
            sql("active DESC"),
            sql("id DESC"),
        ),
        Index("chat_unread", "owner", sqlite_where=sql("unread = 1")),
        Index("chat_temporary", "temporary", "created", sqlite_where=sql("temporary = 1")),
    )


class Message(Base):
    __tablename__ = "message"
    id: Mapped[str] = mapped_column(primary_key=True)
    chat: Mapped[str] = mapped_column(ForeignKey("chat.id", ondelete="CASCADE"))
    # No foreign key: a branch is deleted as a whole with its chat, in any order.
    parent: Mapped[str | None]
    role: Mapped[str]  # user | assistant | tool
    reply: Mapped[str | None] = mapped_column(index=True)  # the reply that wrote it (assistant, tool)
    position: Mapped[int]
    created: Mapped[int]
    queued: Mapped[bool] = mapped_column(default=False)
    by_application: Mapped[bool] = mapped_column(default=False)
    # A person's message that waits keeps what was picked for it: `model` and `sampling`.
    sampling: Mapped[dict[str, Any] | None] = mapped_column(Json)
    # What an assistant's message also says: which model at which endpoint, and how it ended.
    model: Mapped[str | None]
    model_name: Mapped[str | None]
    endpoint: Mapped[str | None]
    api: Mapped[str | None]
    stop_reason: Mapped[str | None]
    usage: Mapped[dict[str, Any] | None] = mapped_column(Json)
    tools_offered: Mapped[dict[str, Any] | None] = mapped_column(Json)  # {"names": [...]}
    __table_args__ = (
        UniqueConstraint("chat", "position"),
        Index("message_children", "chat", "parent", "position"),
        Index("message_queue", "chat", sqlite_where=sql("queued = 1")),
    )


class Part(Base):
    __tablename__ = "part"
    message: Mapped[str] = mapped_column(ForeignKey("message.id", ondelete="CASCADE"), primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True)
    type: Mapped[str]  # text | reasoning | tool_use | tool_result | image | document
    text: Mapped[str | None]
    call: Mapped[str | None]  # the tool-use id
    name: Mapped[str | None]
    arguments: Mapped[str | None]
    input: Mapped[dict[str, Any] | None] = mapped_column(Json)
    outcome: Mapped[str | None]
    ms: Mapped[int | None]
    file: Mapped[str | None] = mapped_column(ForeignKey("file.id"))
    opaque: Mapped[dict[str, Any] | None] = mapped_column(Json)
    __table_args__ = (Index("part_file", "file", sqlite_where=sql("file IS NOT NULL")),)


class Reply(Base):
    __tablename__ = "reply"
    id: Mapped[str] = mapped_column(primary_key=True)
    chat: Mapped[str] = mapped_column(ForeignKey("chat.id", ondelete="CASCADE"), index=True)
    input: Mapped[str] = mapped_column(index=True)  # the user message that it answers
    after: Mapped[str]  # the message that its first one follows: the input
    continues: Mapped[str | None]  # the reply whose kept text it begins with
    phase: Mapped[str]
    run: Mapped[str]  # the fencing token: every write of a run carries it
    resumed: Mapped[int] = mapped_column(default=0)  # how often a restart has picked it up
    model: Mapped[str | None]  # the pick; which model answered stands on its messages
    sampling: Mapped[dict[str, Any]] = mapped_column(default=dict)
    stop_reason: Mapped[str | None]
    reason: Mapped[str | None]
    error: Mapped[dict[str, Any] | None] = mapped_column(Json)  # {"text", "code", "actions"}
    usage: Mapped[dict[str, Any] | None] = mapped_column(Json)
    created: Mapped[int]
    started: Mapped[int | None]
    ended: Mapped[int | None]
    __table_args__ = (
        CheckConstraint(
            "phase IN ('accepted','running','waiting','complete','stopped','failed','interrupted')",
            name="reply_phase",
        ),
        # One lane: at most one live reply in a chat, held by the database itself.
        Index("reply_lane", "chat", unique=True, sqlite_where=sql(IN_LANE)),
    )


class EventRow(Base):
    """A logged event of an ended reply. Neighbouring deltas stand in one row, numbered `first` to `seq`."""

    __tablename__ = "event"
    reply: Mapped[str] = mapped_column(ForeignKey("reply.id", ondelete="CASCADE"), primary_key=True)
    run: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    first: Mapped[int]
    round: Mapped[int]
    ts: Mapped[int]
    type: Mapped[str]
    data: Mapped[str | None]  # JSON text; None where it is 32 KB or more and lies in `event_blob`
    lengths: Mapped[list[int] | None] = mapped_column(Json)  # of joined deltas, in characters
    __table_args__ = (Index("event_warning", "reply", sqlite_where=sql("type = 'warning'")),)


class EventBlob(Base):
    __tablename__ = "event_blob"
    reply: Mapped[str] = mapped_column(ForeignKey("reply.id", ondelete="CASCADE"), primary_key=True)
    run: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[str]


class SentRequest(Base):
    """What was sent, per model call of a reply ("what was sent" of SPEC 11.4)."""

    __tablename__ = "sent_request"
    reply: Mapped[str] = mapped_column(ForeignKey("reply.id", ondelete="CASCADE"), primary_key=True)
    message: Mapped[str] = mapped_column(primary_key=True)  # the assistant message it gave
    at: Mapped[int]
    model_name: Mapped[str]
    endpoint: Mapped[str]
    # The request as ids of stored messages plus what is not stored elsewhere: small whatever the history.
    request: Mapped[dict[str, Any]]


class Idempotency(Base):
    """What a POST with this key made; kept at least a day, however often it is sent again."""

    __tablename__ = "idempotency"
    user: Mapped[str] = mapped_column(ForeignKey("user.id", ondelete="CASCADE"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str]  # SHA-256 of what was asked
    kind: Mapped[str]  # message | reply | chat | file | ...
    made: Mapped[str]  # the id of what was made
    created: Mapped[int] = mapped_column(index=True)


class Draft(Base):
    __tablename__ = "draft"
    user: Mapped[str] = mapped_column(ForeignKey("user.id", ondelete="CASCADE"), primary_key=True)
    chat: Mapped[str] = mapped_column(primary_key=True)  # "" for the chat that is not there yet
    text: Mapped[str]
    updated: Mapped[int]


class File(Base):
    """An uploaded file. Its bytes lie in DATA/files under their SHA-256, never changed."""

    __tablename__ = "file"
    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(ForeignKey("user.id", ondelete="CASCADE"), index=True)
    sha256: Mapped[str] = mapped_column(index=True)
    name: Mapped[str]
    type: Mapped[str]  # decided by us from its content
    size: Mapped[int]
    created: Mapped[int]
