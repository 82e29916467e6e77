"""The contract of a generator, as a test class to inherit; at the top level of its file, which
another process loads again."""

import hashlib
import inspect
import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from dataclasses import asdict

from sage_cli.problems.overlap import normalised
from sage_cli.problems.problem import Generator

COUNT, BATCH_SIZE = 37, 8
_AGAIN = """
import importlib.util, sys
file, name = sys.argv[1:]
spec = importlib.util.spec_from_file_location("contract_again", file)
module = sys.modules["contract_again"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(getattr(module, name)().digest())
"""


class GeneratorContract(ABC):
    """The same in every process, disjoint splits, stable ids, golds, an identity, plain JSON."""

    @abstractmethod
    def make(self) -> Generator:
        """Return a new instance of the generator under test."""

    @abstractmethod
    def changed(self) -> Generator:
        """Return the same generator with another setting."""

    def digest(self) -> str:
        """Return the hash of all that `make()` gives: problems, demonstrations and identity."""
        generator = self.make()
        rows = [
            asdict(problem) for split in generator.splits for problem in generator.problems(split)
        ]
        if generator.demonstrates():
            rows += [
                asdict(demonstration)
                for demonstration in generator.demonstrations(COUNT, BATCH_SIZE)
            ]
        text = json.dumps([rows, generator.identity()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def test_the_same_twice(self) -> None:
        """Two instances agree, and one agrees with itself."""
        generator = self.make()
        for split in generator.splits:
            first = generator.problems(split)
            assert first == generator.problems(split) == self.make().problems(split)
        assert self.digest() == self.digest()

    def test_the_same_in_another_process(self) -> None:
        """Nothing depends on the process: on its hash seed, its random numbers, its clock."""
        program = [sys.executable, "-c", _AGAIN, inspect.getfile(type(self)), type(self).__name__]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONHASHSEED": "4711",
        }
        done = subprocess.run(program, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == self.digest()

    def test_every_split_has_problems_and_no_question_is_in_two(self) -> None:
        """Spacing, case and punctuation apart."""
        generator = self.make()
        questions = {
            split: {normalised(problem.question) for problem in generator.problems(split)}
            for split in generator.splits
        }
        assert all(questions.values())
        assert sum(map(len, questions.values())) == len(set().union(*questions.values()))

    def test_a_problem_can_be_asked_graded_and_stored(self) -> None:
        """Samples and grades are stored by id, and what else is known of a problem as JSON."""
        generator, ids = self.make(), []
        for entry in generator.entries():
            for problem in generator.problems(entry.split):
                assert problem.question.strip()
                assert problem.gold.strip()
                assert problem.benchmark == entry.name
        for split in generator.splits:
            for problem in generator.problems(split):
                json.dumps(dict(problem.meta), allow_nan=False)
                ids.append(problem.id)
        assert len(set(ids)) == len(ids)
        assert all(ids)

    def test_the_identity_changes_with_the_settings(self) -> None:
        """And is plain JSON, which reads back as itself."""
        identity = self.make().identity()
        assert json.loads(json.dumps(identity)) == identity
        assert identity == self.make().identity()
        assert identity != self.changed().identity()

    def test_as_many_demonstrations_as_wanted_and_none_of_a_held_out_question(self) -> None:
        """For generators that make demonstrations."""
        generator = self.make()
        if not generator.demonstrates():
            return
        for count in (1, COUNT):
            assert len(generator.demonstrations(count, BATCH_SIZE)) == count
        demonstrations = generator.demonstrations(COUNT, BATCH_SIZE)
        demonstrated = {normalised(demonstration.question) for demonstration in demonstrations}
        for split in generator.splits:
            if split != "training":
                assert not demonstrated & {
                    normalised(p.question) for p in generator.problems(split)
                }
