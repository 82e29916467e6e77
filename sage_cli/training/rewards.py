"""Rewards of completions: built-in ones, functions of one's own, parts and their weights."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import combinations, groupby
from json import dumps
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, SageError, TrainingError
from sage_cli.grading.grades import AnswerTags, extract
from sage_cli.methods.hooks import GradeCompletions, GradeReward
from sage_cli.methods.online import OnlineMethod
from sage_cli.problems.problem import Problem
from sage_cli.settings.own_code import OwnFunction, blamed, names_code
from sage_cli.settings.prompt import PromptSection
from sage_cli.settings.rewards import GRADE, OVERLONG, PLURALITY, RANDOM, Reward, are_usual

if TYPE_CHECKING:
    from torch import Tensor

RewardFunction = Callable[..., Sequence[Any]]

GIVEN = ("prompts", "completions", "completion_ids", "trainer_state")
"""What a function is given besides columns; `trainer_state` as TRL gives it."""
_LARGEST = 3.4e38
"""Above it a 32-bit number is infinite."""
_NEXT = (
    "correct the function and type the command again; a changed file is another run, which begins "
    "at step 0"
)


class CalledReward:
    """TRL's reward function around one of one's own.

    It is called as TRL calls it, `reward(prompts, completions, completion_ids, **columns)`, with
    the columns of `rows`; a function without `**` gets those that it names. It returns a number or
    None for each completion. `who` names it in messages, `module` is where it stands.

    Raises ConfigurationError if it takes what there is not.
    """

    def __init__(
        self, who: str, module: str, function: RewardFunction, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        self.who, self.module, self.function = who, module, function
        self.rows = rows
        self.__name__ = who
        self._columns = tuple(dict.fromkeys(key for row in rows for key in row))
        self._takes = self._parameters()

    def __call__(self, *, row: Sequence[int], **given: Any) -> list[float | None]:
        """Return the rewards of a batch; `row` are the numbers of its problems.

        Raises TrainingError that names the function, its line and the completion.
        """
        texts = given["completions"]
        arguments = {name: given[name] for name in GIVEN if name in given and name in self._takes}
        for column in self._columns:
            if column in self._takes:
                arguments[column] = [self.rows[number].get(column) for number in row]
        try:
            returned = self._called(arguments)
        except SageError as error:
            raise TrainingError(f"{error.cause}{self._culprit(arguments, texts)}", _NEXT) from error
        return self._checked(returned, texts)

    def _called(self, arguments: Mapping[str, Any]) -> Any:
        with blamed(self.who, self.module):
            returned = self.function(**arguments)
            if not inspect.isawaitable(returned):
                return returned
            import asyncio  # a fortieth of a second, which dry runs would pay too

            return asyncio.run(_awaited(returned))

    def _culprit(self, arguments: Mapping[str, Any], texts: Sequence[str]) -> str:
        """Return which completion it fails on, found by giving it one after the other."""
        for number in range(len(texts)):
            single = {
                name: value if name == "trainer_state" else [value[number]]
                for name, value in arguments.items()
            }
            try:
                self._called(single)
            except SageError:
                return f", at {_which(number, texts)}"
        return f", at a batch of {len(texts)} completions and at none of them alone"

    def _checked(self, returned: Any, texts: Sequence[str]) -> list[float | None]:
        returned = returned.tolist() if hasattr(returned, "tolist") else returned
        if not isinstance(returned, list | tuple) or len(returned) != len(texts):
            given = (
                f"{len(returned)} rewards"
                if isinstance(returned, list | tuple)
                else f"{returned!r:.80}"
            )
            raise TrainingError(
                f"{self.who} returns {given} for {len(texts)} completions{self._line}",
                f"return a list with a number or None for each completion; {_NEXT}",
            )
        return [self._number(value, number, texts) for number, value in enumerate(returned)]

    def _number(self, value: Any, number: int, texts: Sequence[str]) -> float | None:
        value = value.item() if hasattr(value, "item") else value
        if value is None:
            return None
        if isinstance(value, int | float) and abs(value) <= _LARGEST:
            return float(value)
        raise TrainingError(
            f"{self.who} returns {value!r:.80} for {_which(number, texts)}{self._line}",
            f"return a finite number, or None where there is no such reward; {_NEXT}",
        )

    def _parameters(self) -> frozenset[str]:
        """Return which of the arguments that there are the function takes."""
        available = (*GIVEN, *self._columns)
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):  # compiled code may not say
            return frozenset(available)
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            return frozenset(available)
        needed = [
            parameter.name for parameter in parameters if parameter.default is parameter.empty
        ]
        if lacking := [name for name in needed if name not in available]:
            raise ConfigurationError(
                f"{self.who} has the argument '{lacking[0]}', and there is no such "
                f"column{self._line}",
                f"available arguments: {', '.join(available)}",
            )
        return frozenset(parameter.name for parameter in parameters).intersection(available)

    @property
    def _line(self) -> str:
        """` (mine.py, line 3)`: where the function begins; empty if that can't be told."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        if code is None:
            return ""
        return f" ({code.co_filename.rpartition('/')[2]}, line {code.co_firstlineno})"


def problem_columns(problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """Return what is known of each problem: its row's own columns, question, gold and id."""
    ours = (*GIVEN, "row", "origin")
    return [
        {key: value for key, value in {**problem.own, **problem.meta}.items() if key not in ours}
        | {"question": problem.question, "gold": problem.gold, "problem_id": problem.id}
        for problem in problems
    ]


async def _awaited(result: Any) -> Any:
    return await result


def _which(number: int, texts: Sequence[str]) -> str:
    """`completion 3 of 16 ('6*7 is ...')`, counted from 0 as in a list."""
    return f"completion {number} of {len(texts)}, counted from 0 ({texts[number][:60]!r})"


def built_in_reward(reward: Reward, config: SageConfig) -> RewardFunction:
    """Return the reward `format`, `brevity` or `random` under these settings."""

    def formed(completions: Sequence[str], **_: Any) -> list[float]:
        return [float(has_form(text, config.prompt)) for text in completions]

    def brevity(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        return [length_left(len(ids), config.rollout.max_tokens) for ids in completion_ids]

    def random(problem_id: Sequence[str], trainer_state: Any, **_: Any) -> list[float]:
        thrown = partial(coin, config.rl.seed, trainer_state.global_step)
        rows = enumerate(problem_id, _first_row(len(problem_id)))
        return [float(thrown(problem, row) < reward.p) for row, problem in rows]

    functions: dict[str, RewardFunction] = {"format": formed, "brevity": brevity, RANDOM: random}
    return functions[reward.name]


def coin(seed: int, step: int, problem: str, rollout: int) -> float:
    """Return a number in [0, 1), a hash of the run's seed, step, problem and row of the batch.

    Nothing is remembered, so a resumed run throws the same, and so do any number of processes.
    """
    digest = sha256(dumps([seed, step, problem, rollout]).encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def _first_row(rows: int) -> int:
    """Return the number of this process's first row, each process having so many."""
    from accelerate import PartialState

    return int(PartialState().process_index) * rows


class Plurality:
    """TRL's reward function for a group's most frequent answer, correct or not.

    Of answers that are equally frequent all are rewarded. Answers are what the grader takes from a
    completion; one that it can't read is none. A group is a problem's rows that follow each other.
    """

    __name__ = PLURALITY

    def __init__(self, grader: GradeCompletions) -> None:
        self._grader = grader

    def __call__(self, *, row: Sequence[int], **given: Any) -> list[float]:
        """Return the rewards of this process's rows; a group may be spread over processes."""
        from accelerate.utils import gather_object

        mine = list(zip(row, given["gold"], given["completions"], strict=True))
        first, values = _first_row(len(mine)), list[float]()
        for _, rows in groupby(gather_object(mine), key=itemgetter(0)):
            values += map(float, self._elect([(gold, text) for _, gold, text in rows]))
        return values[first : first + len(mine)]

    def _elect(self, group: Sequence[tuple[str, str]]) -> list[bool]:
        """Return True for the most frequent answers of a group of (gold, completion).

        Answers are one where the judge accepts the later with the earlier as gold. That need not be
        transitive, so an answer joins the earliest that it equals and that has joined no other.
        """
        golds, texts = zip(*group, strict=True)
        answers = [
            "" if grade.status == "unparseable" else (grade.extracted or "").strip()
            for grade in self._grader(golds, texts)
        ]
        text_of = dict(zip(answers, texts, strict=True))
        forms = [answer for answer in dict.fromkeys(answers) if answer]
        pairs = list(combinations(forms, 2))
        grades = self._grader([a for a, _ in pairs], [text_of[b] for _, b in pairs])
        equal = {pair for pair, g in zip(pairs, grades, strict=True) if g.status == "right"}
        joined: dict[str, str] = {}
        for form in forms:
            joined[form] = next((a for a in joined.values() if (a, form) in equal), form)
        counts = Counter(joined[answer] for answer in answers if answer)
        most = max(counts.values(), default=0)
        return [bool(answer) and counts[joined[answer]] == most for answer in answers]


def has_form(text: str, prompt: PromptSection) -> bool:
    r"""Return True if the answer stands where the prompt asks for it, once.

    Under `prompt.answer: tags` the opening and the closing tag stand there once each, in this
    order, with more than space between them and no more than space behind. Under `boxed` a closed
    \boxed{} has something in it.
    """
    tags = AnswerTags(prompt.answer_open, prompt.answer_close)
    answer = extract(text, tags, prompt.answer)
    if answer is None or not answer.strip():
        return False
    if prompt.answer != "tags":
        return True
    once = text.count(tags.open) == text.count(tags.close) == 1
    return once and not text.partition(tags.close)[2].strip()


def length_left(tokens: int, limit: int) -> float:
    """Return 1 - tokens / limit: 1 for nothing, 0 at `rollout.max_tokens`."""
    return 1 - tokens / limit


def called_reward(
    reward: Reward, config: SageConfig, columns: Sequence[dict[str, Any]]
) -> CalledReward:
    """Return one of the rewards besides the grade, ready to be called."""
    who, module = f"reward '{reward.label}'", "sage_cli.training.rewards"
    function: RewardFunction
    if names_code(reward.name):
        written = OwnFunction.parse(reward.name)
        function, module, who = written.load(), written.module, f"{who} ({written})"
    else:
        function = built_in_reward(reward, config)
    return CalledReward(who, module, function, columns)


def check_rewards(config: SageConfig, problems: Sequence[Problem]) -> str:
    """Describe the rewards, whose functions are loaded before anything is trained.

    Raises ConfigurationError as `build_rewards` does.
    """
    columns = problem_columns(problems)
    for reward in config.rl.used_rewards:
        if reward.name not in (GRADE, PLURALITY):
            called_reward(reward, config, columns)
    return ", ".join(reward.label for reward in config.rl.used_rewards) or "none"


def check_plugins(config: SageConfig) -> str:
    """Name guide and method, of which and of rewards others may be the authors.

    Raises ConfigurationError for one that can't be made, before anything is trained.
    """
    config.guide.for_training(config.rl.steps)
    config.rl.require_installed()
    for reward in config.rl.used_rewards:
        if names_code(reward.name):
            OwnFunction.parse(reward.name).load()
    return f"guide {config.guide.name} and method {config.rl.algo} can be loaded"


class Deferred:
    """A reward that keeps its failure, and says nothing of that batch."""

    def __init__(self, reward: CalledReward) -> None:
        self.reward, self.__name__ = reward, reward.__name__
        self.failure: tuple[str, str | None] | None = None

    def __call__(self, **given: Any) -> Sequence[float | None]:
        """Return the rewards of a batch, None for each completion where that fails."""
        try:
            return self.reward(**given)
        except TrainingError as error:
            self.failure = (error.cause, error.next_step)
            return [None] * len(given["completions"])


def raise_failures(functions: Sequence[Callable[..., Any]]) -> None:
    """Raise TrainingError, in every process, if a reward has failed in one of them."""
    from accelerate.utils import gather_object

    mine = [reward.failure for reward in functions if isinstance(reward, Deferred)]
    failures = [reward for reward in gather_object(mine) if reward is not None] if mine else []
    if failures:
        raise TrainingError(*failures[0])


@dataclass(frozen=True)
class RewardSet:
    """The rewards of completions: F functions with their names and weights, in one order.

    The grade is always among them, since it is always recorded; its weight is 0 where it isn't
    a reward. `graded` is True where rewards may be other than correct or wrong and punishments.
    """

    names: tuple[str, ...]
    weights: tuple[float, ...]
    functions: tuple[Callable[..., Any], ...]
    graded: bool

    @property
    def pays(self) -> bool:
        """Return True if anything is maximised; not where a policy learns from a teacher alone."""
        return any(self.weights)

    def pay(self, raw_BF: Tensor, group: int) -> tuple[Tensor, Tensor]:
        """Return the parts (B, F) of the sum that is maximised, and which rows (B,) are rated.

        NaN is a part that says nothing of a completion, and counts 0. A completion of which no
        reward but a punishment says anything isn't rated: it gets the mean of its group's others,
        takes part in neither a group's mean nor its deviation, and has advantage 0.
        """
        import torch

        if not self.graded:
            return raw_BF, torch.ones(len(raw_BF), dtype=torch.bool, device=raw_BF.device)
        weights_F = torch.tensor(self.weights, dtype=raw_BF.dtype, device=raw_BF.device)
        weighted_BF = (raw_BF * weights_F).nan_to_num(nan=0.0)
        judges = [
            weight != 0 and name != OVERLONG
            for name, weight in zip(self.names, self.weights, strict=True)
        ]
        judges_F = torch.tensor(judges, device=raw_BF.device)
        rated_B = ~(raw_BF.isnan() | ~judges_F).all(dim=1)
        silent_PN = ~rated_B.reshape(-1, group)
        if silent_PN.any():
            total_PN = weighted_BF.sum(dim=1).reshape(-1, group)
            said_P1 = (~silent_PN).sum(dim=1, keepdim=True)
            mean_P1 = (total_PN * ~silent_PN).sum(dim=1, keepdim=True) / said_P1.clamp(min=1)
            # any column would do: what is maximised is their sum
            weighted_BF[:, 0] += torch.where(silent_PN, mean_P1 - total_PN, 0.0).flatten()
        return weighted_BF, rated_B

    def record(
        self, raw_BF: Tensor, weighted_BF: Tensor, rated_B: Tensor, group: int
    ) -> dict[str, float]:
        """Return `reward/NAME`, the mean of each part over the completions that have it.

        With graded rewards also the grade's if it is a reward, `reward/total`, what is maximised,
        and the share of groups whose totals are equal. Of what pays nothing there is no total.
        """
        import torch

        recorded = [
            name
            for name, weight in zip(self.names, self.weights, strict=True)
            if name != GRADE or (self.graded and weight)
        ]
        record = {}
        for name, values_B in zip(self.names, raw_BF.T, strict=True):
            said_B = ~values_B.isnan()
            if name in recorded and said_B.any():
                some_B = values_B if said_B.all() else values_B[said_B]
                record[f"reward/{name}"] = some_B.mean().item()
        if self.graded and self.pays:
            total_PN = weighted_BF.sum(dim=1).reshape(-1, group)
            rated_PN = rated_B.reshape(-1, group)
            lowest_P = total_PN.where(rated_PN, torch.inf).amin(dim=1)
            highest_P = total_PN.where(rated_PN, -torch.inf).amax(dim=1)
            equal_P = lowest_P >= highest_P  # of those that are rated; none and one are equal
            if rated_PN.any():
                record["reward/total"] = total_PN[rated_PN].mean().item()
            record["groups/zero_variance"] = equal_P.float().mean().item()
        return record


def build_rewards(
    config: SageConfig,
    rl: OnlineMethod,
    grade: GradeReward,
    problems: Sequence[Problem],
) -> RewardSet:
    """Return the rewards of a training; functions of one's own are loaded.

    Raises ConfigurationError for one that can't be imported or takes what there is not.
    """
    columns = problem_columns(problems)
    parts: list[tuple[str, float, Callable[..., Any]]] = []
    for reward in rl.rewards:
        function: Callable[..., Any]
        if reward.name == GRADE:
            function = grade
        elif reward.name == PLURALITY:
            function = Plurality(grade.grader)
        else:
            function = Deferred(called_reward(reward, config, columns))
        parts.append((reward.label, reward.weight, function))
    if GRADE not in (reward.name for reward in rl.rewards):
        parts.append((GRADE, 0.0, grade))
    if share := getattr(rl, "overlong_buffer", None):
        from trl.rewards import get_soft_overlong_punishment

        # DAPO's: from 0 to -1 over the last stretch of the length
        limit = config.rollout.max_tokens
        buffer = max(1, round(share * limit))
        punish = get_soft_overlong_punishment(max_completion_len=limit, soft_punish_cache=buffer)
        parts.append((OVERLONG, 1.0, punish))
    names, weights, functions = zip(*parts, strict=True)
    graded = not are_usual(rl.rewards) or config.grading.judge is not None
    return RewardSet(names, weights, functions, graded)
