"""An asynchronous run on the ranks of a launcher: one thread steps, one records.

The recording thread of every rank asks all others a few times a second, at a beat, how
far they are. Nobody who steps waits for that. When all ranks have passed a clock that
was agreed on before, the states that they held at it are evaluated together.
"""

import copy
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.errors import LostRankError
from proxmesh.network.blocks import BlockWorld
from proxmesh.network.mail import Inbox, mail_of, packed, unpacked
from proxmesh.network.timeouts import Watch
from proxmesh.solver.asynchronous.lending import LendingTransport
from proxmesh.solver.asynchronous.member import Member, Neighbors
from proxmesh.solver.asynchronous.turns import Turns
from proxmesh.solver.loop import Loop
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.result import Result
from proxmesh.solver.signals import Signals
from proxmesh.types import AsynchronousForm, Neighborhood, Problem

__all__ = ["AsynchronousRanks", "neighbors_in"]

BEAT_SECONDS = 0.05  # mpiexec kills a quarter of a second after SIGTERM
LOOK_SECONDS = 0.1  # at the mail, even if nobody has told that there is any


def neighbors_in(world: BlockWorld) -> Neighbors:
    """What this rank's agents know of each other and of the other ranks' agents."""
    placement, rank, like = world.placement, world.rank, world.degree
    near = world.graph.adjacency[list(world.agents)]

    def edges(agents: Sequence[int]) -> Tensor:
        return torch.from_numpy(near[:, list(agents)].toarray()).to(like)

    inside = edges(world.agents)
    return Neighbors(
        Neighborhood(like, world.max_degree),
        inside if bool(inside.any()) else None,
        {peer: edges(placement.sent(peer, rank)) for peer in placement.peers(rank)},
    )


@final
class AsynchronousRanks:
    """One rank's part of a run.

    Parameters
    ----------
    loop
        Records the run: history, folder, checkpoints, reasons to stop.
    form
        The method.
    problem, world
        This rank's part of the problem, and who the others are.
    max_staleness
        Ticks that a message may be behind.
    marks
        Clocks at which something is done with all states, the last one the end.
    looks
        Those at which the age of messages is looked at, and from when on it counts.
    """

    def __init__(
        self,
        loop: Loop,
        form: AsynchronousForm[Any],
        problem: Problem,
        world: BlockWorld,
        *,
        max_staleness: int,
        marks: Sequence[int],
        looks: Mapping[int, int],
    ) -> None:
        self._looks = looks
        self._loop, self._form, self._problem = loop, form, problem
        self._world, self._max_staleness = world, max_staleness
        self._marks = marks
        self._changed = threading.Condition()
        self._turns = Turns(self._changed)
        self._inbox = Inbox(self._changed)
        self._held: deque[Any] = deque()  # states at marks that all must reach first
        self._signals = Signals(world)
        self._stands_still = False
        self._ended = False
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._watch = world.watch
        run = world.watch.transport.epoch
        self._run = run
        index = {agent: i for i, agent in enumerate(world.agents)}
        placement, rank = world.placement, world.rank
        self._sent = {
            peer: torch.tensor([index[a] for a in placement.sent(rank, peer)])
            for peer in placement.peers(rank)
        }
        self._received = {
            peer: len(placement.sent(peer, rank)) for peer in placement.peers(rank)
        }

    def go(self, state: Any) -> Result:
        """Step until the recording thread says that the run has ended."""
        loop = self._loop
        with loop.ends, self._signals.noted():
            ended = loop.begun(state)
            if ended is not None:
                return ended
            self._member = self._joined(state)
            sizes = {p: (len(self._sent[p]), self._received[p]) for p in self._sent}
            mail = mail_of(self._world, self._inbox, sizes, state.x.shape[1])
            self._send = mail.send
            self._tell(self._member.clock, self._member.told())
            watch: Any = loop.clock
            watch.start(self._turns)
            loop.world = self._lending_world()
            threads = torch.get_num_threads()
            recorder = threading.Thread(
                target=self._record, args=(threads,), daemon=True, name="recording"
            )
            recorder.start()
            try:
                self._step_until_the_end()
            except LostRankError as error:
                error.iteration = self._member.clock
                raise
            recorder.join()
            mail.close(self._watch.timeout)
            if self._result is None:
                raise RuntimeError("the recording thread left without a result")
            return self._result

    # -- the thread that steps -------------------------------------------------------

    def _joined(self, state: Any) -> Member:
        neighbors = neighbors_in(self._world)
        return Member(
            self._form,
            state,
            self._problem,
            neighbors,
            marks=self._marks,
            on_mark=self._hold,
        )

    def _step_until_the_end(self) -> None:
        member, end = self._member, self._marks[-1]
        while not self._ended:
            self._turns.offer()
            self._listen()
            stays = self._stands_still or member.clock >= end
            if stays or not member.has_heard_all or self._is_ahead():
                with self._changed:
                    if not self._turns.is_asked and self._inbox.is_empty:
                        self._changed.wait(LOOK_SECONDS)
                continue
            member.step(end, self._tell)
            self._loop.glance(member.clock)
        if self._error is not None:
            raise self._error

    def _is_ahead(self) -> bool:
        return self._member.behind() > self._max_staleness

    def _listen(self) -> None:
        """Hand the newest messages to the member."""
        for peer, message in self._inbox.taken().items():
            found = unpacked(message, self._run, self._received[peer])
            if found is not None:
                clock, rows = found
                self._member.hear(peer, clock, rows.to(self._world.degree.device))
        if self._inbox.error is not None and not self._ended:
            self._watch.wait(_Broken())

    def _tell(self, clock: int, rows: Tensor) -> None:
        for peer, chosen in self._sent.items():
            self._send(peer, packed(clock, self._run, rows[chosen]))

    def _hold(self, state: Any) -> None:
        with self._changed:
            self._held.append(state)

    # -- the thread that records -----------------------------------------------------

    def _lending_world(self) -> BlockWorld:
        transport = LendingTransport(self._watch.transport, self._turns)
        watch = Watch(transport, self._watch.timeout)
        watch.placement = self._watch.placement
        self._lending_watch = watch
        world = copy.copy(self._world)
        world.watch = watch
        return world

    def _record(self, threads: int) -> None:
        torch.set_num_threads(threads)  # a thread has a number of its own
        try:
            self._result = self._recorded()
        except BaseException as error:
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _recorded(self) -> Result:
        for mark in self._marks:
            while True:
                stop, missing, latest = self._beat(mark)
                if stop:
                    return self._interrupted(latest)
                if not missing:
                    break
                time.sleep(BEAT_SECONDS)
            with self._turns.taken():
                result = self._at(mark)
            if result is not None:
                return result
        raise AssertionError("the last mark is the end")

    def _beat(self, mark: int) -> tuple[bool, bool, int]:
        """Whether a rank must stop, or has not reached the mark; the largest clock."""
        held = bool(self._held) and int(self._held[0].k) == mark
        told = [self._signals.heard, not held, self._member.clock]
        local = torch.tensor(told, dtype=torch.float64)
        stop, missing, latest = self._lending_watch.reduce(local, "max").tolist()
        return bool(stop), bool(missing), int(latest)

    def _at(self, mark: int) -> Result | None:
        """All ranks have passed a mark: look at what they held, keep it, or end."""
        loop, state = self._loop, self._held.popleft()
        if mark in self._looks:
            age = torch.tensor([self._member.age()])
            age = self._lending_watch.reduce(age, "max")
            self._form.adapt(float(age), self._looks[mark])
        loop.costs.catch_up(mark)
        loop.journal.seconds = loop.clock.seconds
        if loop.is_to_look_at(mark):
            loop.plain_step = lambda _: state  # a replay would take another path
            ended = loop.look_at(state, mark)
            if ended is not None:
                return ended
        if mark == self._marks[-1]:
            loop.save_last(state)
            return loop.result(Outcome.FINISHED, f"{mark} iterations.", state)
        if loop.saver is not None:
            due, *_ = loop.saver.answers(mark, loop.clock.seconds)
            wish = torch.tensor([float(due)])
            if bool(self._lending_watch.reduce(wish, "max")):
                with self._turns.given_back():  # the disk is slow
                    loop.saver.save_now(state, loop.journal)
        return None

    def _interrupted(self, latest: int) -> Result:
        """Stand still, here and on all ranks, at the largest clock of all."""
        self._stands_still = True
        with self._turns.taken():
            clock = torch.tensor([float(max(latest, self._member.clock))])
            agreed = int(self._lending_watch.reduce(clock, "max"))
            state = self._member.held_at(agreed)
            return self._loop.interrupted(state, self._marks[-1])


@final
class _Broken:
    """What is waited for when a connection is gone."""

    def wait(self, seconds: float) -> None:
        del seconds
        raise ConnectionError
