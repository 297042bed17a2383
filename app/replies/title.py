"""Names a chat after its first reply, from the words of its input, without delaying anything.

The opening words are its name until then, and stay where the model call fails or gives nothing.
"""

import logging
import re

from app.core.errors import NightdeskError
from app.core.messages import user_message
from app.core.text import fill, opening_words, storable
from app.replies.feed import Bulletin, Generation
from app.replies.models import Models
from app.store import chats
from app.store.engine import Database, Session
from app.store.tables import Chat
from app.tasks import Tasks

logger = logging.getLogger(__name__)

PROMPT = """Give the conversation that begins with the text below a title of two to six words, in the language
of the text, as a heading: no quotation marks, no full stop, nothing else.

{{ text }}"""
READ = 2_000
LONGEST = 60
_EDGES = " \t\"'`*#.:“”„«»"


class Titles:
    """Gives titles; each in a task of its own."""

    def __init__(self, db: Database, tasks: Tasks, models: Models, bulletin: Bulletin) -> None:
        self._db = db
        self._tasks = tasks
        self._models = models
        self._bulletin = bulletin

    def after(self, generation: Generation, chat: Chat, first_words: str) -> None:
        """A reply has ended; name its chat if that was the first one. `first_words` are those of its input."""
        finished = generation.state.finished
        if first_words and finished is not None and finished.state == "complete" and self._wanted(chat):
            self._tasks.start(f"title of {chat.id}", self._name(generation, first_words))

    def _wanted(self, chat: Chat) -> bool:
        if chat.title_from != "opening" or chat.kind != "chat" or chat.temporary:
            return False
        # The embedded model is too small for good titles: it is asked only where somebody chose it for them.
        return self._models.chosen("title") is not None or not self._is_embedded()

    def _is_embedded(self) -> bool:
        model = self._models.default("title")
        return all(
            endpoint.came_from == "embedded"
            for usable, endpoint in self._models.usable()
            if model is not None and usable.id == model.id
        )

    async def _name(self, generation: Generation, words: str) -> None:
        prompt = user_message(fill(PROMPT, {"text": opening_words(words, READ)}))
        try:
            answer = await self._models.call("title", (prompt,), generation.user, chat=generation.chat)
            if title := tidied(answer):
                await self._keep(generation, title)
        except NightdeskError as error:
            logger.info("chat %s keeps its opening words as its title: %s", generation.chat, error)

    async def _keep(self, generation: Generation, title: str) -> None:
        async def write(s: Session) -> bool:
            return await chats.set_title(s, generation.chat, title, "model")

        if await self._db.write(write):
            self._bulletin.publish(
                generation.user, "chat", {"id": generation.chat, "change": "renamed", "title": title}
            )


def tidied(answer: str) -> str:
    """A title from what a model said: its first line without thoughts, marks and quotes, not too long."""
    answer = re.sub(r"<think>.*?(</think>|$)", "", storable(answer), flags=re.DOTALL)
    lines = [line.strip(_EDGES) for line in answer.splitlines()]
    line = next((line for line in lines if line), "")
    line = re.sub(r"^(title|titel)\s*:\s*", "", line, flags=re.IGNORECASE).strip(_EDGES)
    return opening_words(line, LONGEST)
