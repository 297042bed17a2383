-- The first schema. An empty line parts two statements.

CREATE TABLE compatibility (
    id INTEGER NOT NULL CHECK (id = 1),
    oldest_program VARCHAR NOT NULL,
    PRIMARY KEY (id)
);

INSERT INTO compatibility (id, oldest_program) VALUES (1, '0');

CREATE TABLE user (
    id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    name_folded VARCHAR NOT NULL,
    role VARCHAR NOT NULL,
    password VARCHAR,
    disabled BOOLEAN NOT NULL,
    created INTEGER NOT NULL,
    preferences JSON NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT user_role CHECK (role IN ('admin', 'member')),
    UNIQUE (name_folded)
);

CREATE TABLE secret (
    owner VARCHAR NOT NULL,
    field VARCHAR NOT NULL,
    origin VARCHAR NOT NULL,
    key_version INTEGER NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (owner, field)
);

CREATE TABLE data_key (
    version INTEGER NOT NULL,
    wrapped BLOB NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (version)
);

CREATE TABLE audit (
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    actor VARCHAR,
    actor_name VARCHAR NOT NULL,
    action VARCHAR NOT NULL,
    target VARCHAR NOT NULL,
    detail JSON NOT NULL,
    address VARCHAR NOT NULL,
    previous VARCHAR NOT NULL,
    hash VARCHAR NOT NULL,
    PRIMARY KEY (seq)
);

CREATE TABLE usage (
    id VARCHAR NOT NULL,
    at INTEGER NOT NULL,
    user VARCHAR NOT NULL,
    chat VARCHAR,
    reply VARCHAR,
    role VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    model_name VARCHAR NOT NULL,
    endpoint VARCHAR NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    estimated BOOLEAN NOT NULL,
    cost DOUBLE,
    PRIMARY KEY (id)
);

CREATE INDEX ix_usage_user ON usage (user);

CREATE INDEX ix_usage_at ON usage (at);

CREATE INDEX ix_usage_reply ON usage (reply);

CREATE TABLE setting (
    name VARCHAR NOT NULL,
    value JSON NOT NULL,
    PRIMARY KEY (name)
);

CREATE TABLE endpoint (
    id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    api VARCHAR NOT NULL,
    base_url VARCHAR NOT NULL,
    came_from VARCHAR NOT NULL,
    enabled BOOLEAN NOT NULL,
    idle_timeout INTEGER NOT NULL,
    created INTEGER NOT NULL,
    checked INTEGER,
    fault VARCHAR,
    PRIMARY KEY (id)
);

CREATE TABLE login_session (
    id VARCHAR NOT NULL,
    user VARCHAR NOT NULL,
    token_hash VARCHAR NOT NULL,
    csrf VARCHAR NOT NULL,
    created INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    agent VARCHAR NOT NULL,
    address VARCHAR NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(user) REFERENCES user (id) ON DELETE CASCADE,
    UNIQUE (token_hash)
);

CREATE INDEX ix_login_session_user ON login_session (user);

CREATE TABLE api_key (
    id VARCHAR NOT NULL,
    user VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    scope VARCHAR NOT NULL,
    hash VARCHAR NOT NULL,
    prefix VARCHAR NOT NULL,
    created INTEGER NOT NULL,
    seen INTEGER,
    PRIMARY KEY (id),
    FOREIGN KEY(user) REFERENCES user (id) ON DELETE CASCADE,
    UNIQUE (hash)
);

CREATE INDEX ix_api_key_user ON api_key (user);

CREATE TABLE one_time_link (
    id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    user VARCHAR,
    token_hash VARCHAR NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    used INTEGER,
    PRIMARY KEY (id),
    FOREIGN KEY(user) REFERENCES user (id) ON DELETE CASCADE,
    UNIQUE (token_hash)
);

CREATE TABLE model (
    id VARCHAR NOT NULL,
    endpoint VARCHAR NOT NULL,
    wire_name VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    enabled BOOLEAN NOT NULL,
    vanished BOOLEAN NOT NULL,
    context_length INTEGER NOT NULL,
    max_output INTEGER NOT NULL,
    price_input DOUBLE,
    price_output DOUBLE,
    price_cached DOUBLE,
    capabilities JSON NOT NULL,
    sampling JSON NOT NULL,
    edited JSON NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (endpoint, wire_name),
    FOREIGN KEY(endpoint) REFERENCES endpoint (id) ON DELETE CASCADE
);

CREATE INDEX ix_model_endpoint ON model (endpoint);

CREATE TABLE chat (
    id VARCHAR NOT NULL,
    owner VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    title VARCHAR NOT NULL,
    title_from VARCHAR NOT NULL,
    folder VARCHAR,
    pinned BOOLEAN NOT NULL,
    archived BOOLEAN NOT NULL,
    "temporary" BOOLEAN NOT NULL,
    model VARCHAR,
    leaf VARCHAR,
    unread BOOLEAN NOT NULL,
    created INTEGER NOT NULL,
    active INTEGER NOT NULL,
    next_position INTEGER NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(owner) REFERENCES user (id) ON DELETE CASCADE
);

CREATE INDEX chat_list ON chat (owner, archived, "temporary", pinned DESC, active DESC, id DESC);

CREATE INDEX chat_unread ON chat (owner) WHERE unread = 1;

CREATE INDEX chat_temporary ON chat ("temporary", created) WHERE temporary = 1;

CREATE TABLE idempotency (
    user VARCHAR NOT NULL,
    "key" VARCHAR NOT NULL,
    fingerprint VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    made VARCHAR NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (user, "key"),
    FOREIGN KEY(user) REFERENCES user (id) ON DELETE CASCADE
);

CREATE INDEX ix_idempotency_created ON idempotency (created);

CREATE TABLE draft (
    user VARCHAR NOT NULL,
    chat VARCHAR NOT NULL,
    text VARCHAR NOT NULL,
    updated INTEGER NOT NULL,
    PRIMARY KEY (user, chat),
    FOREIGN KEY(user) REFERENCES user (id) ON DELETE CASCADE
);

CREATE TABLE file (
    id VARCHAR NOT NULL,
    owner VARCHAR NOT NULL,
    sha256 VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    size INTEGER NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(owner) REFERENCES user (id) ON DELETE CASCADE
);

CREATE INDEX ix_file_sha256 ON file (sha256);

CREATE INDEX ix_file_owner ON file (owner);

CREATE TABLE message (
    id VARCHAR NOT NULL,
    chat VARCHAR NOT NULL,
    parent VARCHAR,
    role VARCHAR NOT NULL,
    reply VARCHAR,
    position INTEGER NOT NULL,
    created INTEGER NOT NULL,
    queued BOOLEAN NOT NULL,
    by_application BOOLEAN NOT NULL,
    sampling JSON,
    model VARCHAR,
    model_name VARCHAR,
    endpoint VARCHAR,
    api VARCHAR,
    stop_reason VARCHAR,
    usage JSON,
    tools_offered JSON,
    PRIMARY KEY (id),
    UNIQUE (chat, position),
    FOREIGN KEY(chat) REFERENCES chat (id) ON DELETE CASCADE
);

CREATE INDEX ix_message_reply ON message (reply);

CREATE INDEX message_queue ON message (chat) WHERE queued = 1;

CREATE INDEX message_children ON message (chat, parent, position);

CREATE TABLE reply (
    id VARCHAR NOT NULL,
    chat VARCHAR NOT NULL,
    input VARCHAR NOT NULL,
    "after" VARCHAR NOT NULL,
    continues VARCHAR,
    phase VARCHAR NOT NULL,
    run VARCHAR NOT NULL,
    resumed INTEGER NOT NULL,
    model VARCHAR,
    sampling JSON NOT NULL,
    stop_reason VARCHAR,
    reason VARCHAR,
    error JSON,
    usage JSON,
    created INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER,
    PRIMARY KEY (id),
    CONSTRAINT reply_phase CHECK (phase IN ('accepted','running','waiting','complete','stopped','failed','interrupted')),
    FOREIGN KEY(chat) REFERENCES chat (id) ON DELETE CASCADE
);

CREATE INDEX ix_reply_input ON reply (input);

CREATE INDEX ix_reply_chat ON reply (chat);

CREATE UNIQUE INDEX reply_lane ON reply (chat) WHERE phase IN ('accepted','running','waiting');

CREATE TABLE part (
    message VARCHAR NOT NULL,
    place INTEGER NOT NULL,
    type VARCHAR NOT NULL,
    text VARCHAR,
    call VARCHAR,
    name VARCHAR,
    arguments VARCHAR,
    input JSON,
    outcome VARCHAR,
    ms INTEGER,
    file VARCHAR,
    opaque JSON,
    PRIMARY KEY (message, place),
    FOREIGN KEY(message) REFERENCES message (id) ON DELETE CASCADE,
    FOREIGN KEY(file) REFERENCES file (id)
);

CREATE INDEX part_file ON part (file) WHERE file IS NOT NULL;

CREATE TABLE event (
    reply VARCHAR NOT NULL,
    run VARCHAR NOT NULL,
    seq INTEGER NOT NULL,
    first INTEGER NOT NULL,
    round INTEGER NOT NULL,
    ts INTEGER NOT NULL,
    type VARCHAR NOT NULL,
    data VARCHAR,
    lengths JSON,
    PRIMARY KEY (reply, run, seq),
    FOREIGN KEY(reply) REFERENCES reply (id) ON DELETE CASCADE
);

CREATE INDEX event_warning ON event (reply) WHERE type = 'warning';

CREATE TABLE event_blob (
    reply VARCHAR NOT NULL,
    run VARCHAR NOT NULL,
    seq INTEGER NOT NULL,
    data VARCHAR NOT NULL,
    PRIMARY KEY (reply, run, seq),
    FOREIGN KEY(reply) REFERENCES reply (id) ON DELETE CASCADE
);

CREATE TABLE sent_request (
    reply VARCHAR NOT NULL,
    message VARCHAR NOT NULL,
    at INTEGER NOT NULL,
    model_name VARCHAR NOT NULL,
    endpoint VARCHAR NOT NULL,
    request JSON NOT NULL,
    PRIMARY KEY (reply, message),
    FOREIGN KEY(reply) REFERENCES reply (id) ON DELETE CASCADE
);

-- The audit log only grows.
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT raise(ABORT, 'the audit log only grows'); END;

CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT raise(ABORT, 'the audit log only grows'); END;

-- Search. An entry is a text part of a message, or (message NULL) a chat's title. Its id is a declared integer key,
-- since VACUUM may renumber rows without one, and the index refers to rows by number. `scope` is the owner as one
-- word, after m for a message and t for a title, so that the index itself keeps people apart. `unspaced` marks texts
-- in scripts written without spaces (Chinese, Japanese, Korean, Thai, Lao, Burmese, Khmer); only these go into the
-- trigram index, with two spaces at their end, so that words of one or two letters begin a trigram wherever they are.
CREATE TABLE search_entry (
    id INTEGER PRIMARY KEY,
    scope VARCHAR NOT NULL,
    chat VARCHAR NOT NULL,
    message VARCHAR,
    place INTEGER,
    unspaced BOOLEAN NOT NULL
);

CREATE UNIQUE INDEX search_entry_part ON search_entry (message, place) WHERE message IS NOT NULL;

CREATE UNIQUE INDEX search_entry_title ON search_entry (chat) WHERE message IS NULL;

CREATE VIEW search_text (id, scope, words, unspaced) AS
SELECT e.id, e.scope, coalesce(p.text, c.title), coalesce(p.text, c.title) || '  '
FROM search_entry AS e
LEFT JOIN part AS p ON p.message = e.message AND p.place = e.place
LEFT JOIN chat AS c ON e.message IS NULL AND c.id = e.chat;

CREATE VIRTUAL TABLE search USING fts5(
    scope, words, content = 'search_text', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);

CREATE VIRTUAL TABLE search_unspaced USING fts5(
    unspaced, content = 'search_text', content_rowid = 'id', tokenize = 'trigram'
);

CREATE VIRTUAL TABLE search_term USING fts5vocab(search_unspaced, instance);

CREATE TRIGGER search_part_added AFTER INSERT ON part WHEN NEW.type = 'text' BEGIN
    INSERT INTO search_entry (scope, chat, message, place, unspaced)
        SELECT 'm' || replace(chat.owner, '-', ''), chat.id, NEW.message, NEW.place, NEW.text GLOB
            '*[฀-๿຀-໿က-႟ᄀ-ᇿក-៿぀-ヿ㐀-䶿一-鿿가-힣豈-﫿ｦ-ﾟ𠀀-𳍿]*'
        FROM message JOIN chat ON chat.id = message.chat WHERE message.id = NEW.message;
    INSERT INTO search (rowid, scope, words)
        SELECT id, scope, NEW.text FROM search_entry WHERE message = NEW.message AND place = NEW.place;
    INSERT INTO search_unspaced (rowid, unspaced)
        SELECT id, NEW.text || '  ' FROM search_entry
        WHERE message = NEW.message AND place = NEW.place AND unspaced;
END;

CREATE TRIGGER search_part_changed AFTER UPDATE OF text ON part WHEN NEW.type = 'text' AND NEW.text IS NOT OLD.text BEGIN
    INSERT INTO search (search, rowid, scope, words)
        SELECT 'delete', id, scope, OLD.text FROM search_entry WHERE message = OLD.message AND place = OLD.place;
    INSERT INTO search_unspaced (search_unspaced, rowid, unspaced)
        SELECT 'delete', id, OLD.text || '  ' FROM search_entry
        WHERE message = OLD.message AND place = OLD.place AND unspaced;
    DELETE FROM search_entry WHERE message = OLD.message AND place = OLD.place;
    INSERT INTO search_entry (scope, chat, message, place, unspaced)
        SELECT 'm' || replace(chat.owner, '-', ''), chat.id, NEW.message, NEW.place, NEW.text GLOB
            '*[฀-๿຀-໿က-႟ᄀ-ᇿក-៿぀-ヿ㐀-䶿一-鿿가-힣豈-﫿ｦ-ﾟ𠀀-𳍿]*'
        FROM message JOIN chat ON chat.id = message.chat WHERE message.id = NEW.message;
    INSERT INTO search (rowid, scope, words)
        SELECT id, scope, NEW.text FROM search_entry WHERE message = NEW.message AND place = NEW.place;
    INSERT INTO search_unspaced (rowid, unspaced)
        SELECT id, NEW.text || '  ' FROM search_entry
        WHERE message = NEW.message AND place = NEW.place AND unspaced;
END;

CREATE TRIGGER search_part_removed AFTER DELETE ON part WHEN OLD.type = 'text' BEGIN
    INSERT INTO search (search, rowid, scope, words)
        SELECT 'delete', id, scope, OLD.text FROM search_entry WHERE message = OLD.message AND place = OLD.place;
    INSERT INTO search_unspaced (search_unspaced, rowid, unspaced)
        SELECT 'delete', id, OLD.text || '  ' FROM search_entry
        WHERE message = OLD.message AND place = OLD.place AND unspaced;
    DELETE FROM search_entry WHERE message = OLD.message AND place = OLD.place;
END;

CREATE TRIGGER search_title_added AFTER INSERT ON chat WHEN NEW.title <> '' BEGIN
    INSERT INTO search_entry (scope, chat, unspaced)
        SELECT 't' || replace(NEW.owner, '-', ''), NEW.id, NEW.title GLOB
            '*[฀-๿຀-໿က-႟ᄀ-ᇿក-៿぀-ヿ㐀-䶿一-鿿가-힣豈-﫿ｦ-ﾟ𠀀-𳍿]*'
        WHERE NEW.title <> '';
    INSERT INTO search (rowid, scope, words)
        SELECT id, scope, NEW.title FROM search_entry WHERE chat = NEW.id AND message IS NULL;
    INSERT INTO search_unspaced (rowid, unspaced)
        SELECT id, NEW.title || '  ' FROM search_entry WHERE chat = NEW.id AND message IS NULL AND unspaced;
END;

CREATE TRIGGER search_title_changed AFTER UPDATE OF title ON chat WHEN NEW.title IS NOT OLD.title BEGIN
    INSERT INTO search (search, rowid, scope, words)
        SELECT 'delete', id, scope, OLD.title FROM search_entry WHERE chat = OLD.id AND message IS NULL;
    INSERT INTO search_unspaced (search_unspaced, rowid, unspaced)
        SELECT 'delete', id, OLD.title || '  ' FROM search_entry
        WHERE chat = OLD.id AND message IS NULL AND unspaced;
    DELETE FROM search_entry WHERE chat = OLD.id AND message IS NULL;
    INSERT INTO search_entry (scope, chat, unspaced)
        SELECT 't' || replace(NEW.owner, '-', ''), NEW.id, NEW.title GLOB
            '*[฀-๿຀-໿က-႟ᄀ-ᇿក-៿぀-ヿ㐀-䶿一-鿿가-힣豈-﫿ｦ-ﾟ𠀀-𳍿]*'
        WHERE NEW.title <> '';
    INSERT INTO search (rowid, scope, words)
        SELECT id, scope, NEW.title FROM search_entry WHERE chat = NEW.id AND message IS NULL;
    INSERT INTO search_unspaced (rowid, unspaced)
        SELECT id, NEW.title || '  ' FROM search_entry WHERE chat = NEW.id AND message IS NULL AND unspaced;
END;

CREATE TRIGGER search_chat_removed AFTER DELETE ON chat BEGIN
    INSERT INTO search (search, rowid, scope, words)
        SELECT 'delete', id, scope, OLD.title FROM search_entry WHERE chat = OLD.id AND message IS NULL;
    INSERT INTO search_unspaced (search_unspaced, rowid, unspaced)
        SELECT 'delete', id, OLD.title || '  ' FROM search_entry
        WHERE chat = OLD.id AND message IS NULL AND unspaced;
    DELETE FROM search_entry WHERE chat = OLD.id AND message IS NULL;
END;
