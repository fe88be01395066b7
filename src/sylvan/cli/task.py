"""``sylvan task TASK``: train a network with a softmax over many classes, by any sampler and loss."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from sylvan.cli.options import describe_parameters, shared_options, together
from sylvan.cli.session import LazyGroup, need_subcommand
from sylvan.errors import ParameterError
from sylvan.params.wording import counted

_Function = TypeVar("_Function", bound=Callable[..., Any])
# Each is a module beside this one that holds: OWNER, the job's module and class in sylvan.tasks; HELP, what DATA may
# be, and examples; options(command), a decorator with options of its own; make_job(paths, given, settings); and
# where there is need of them DEFAULTS, of the options that all have, and save_beside(given), called when the first
# training begins, which writes what belongs to all of them.
TASKS = {
    "language-model": "Predict the next word: an LSTM or a Transformer on plain text.",
    "sequential-recommendation": "Predict a user's next item: SASRec or GRU4Rec on ordered interactions.",
    "extreme-classification": "Predict labels of sparse features, from everything that train reads.",
}
_SIZES = (10_000, 100_000, 1_000_000)  # of class sets whose defaults stand in the help


def _module_of(task: str) -> str:
    return f"sylvan.cli.tasks.{task.replace('-', '_')}"


def _owner_of(task: str) -> Any:
    """The class of the task's job."""
    module, name = importlib.import_module(_module_of(task)).OWNER
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise ParameterError('sylvan task needs PyTorch. Install it with: pip install "sylvan[neural]"') from error


class _TaskCommand(click.Command):
    """Lists samplers, losses and the parameters that ``--set`` takes below its options, where PyTorch is there."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        try:
            owner = _owner_of(str(self.name))
            from sylvan.sampling.by_name import HEADS, LOSSES, SAMPLERS
        except (ImportError, ParameterError):
            formatter.write_paragraph()
            formatter.write_text('Needs PyTorch: pip install "sylvan[neural]".')
            return
        with formatter.section("Samplers"):
            formatter.write_dl(list(SAMPLERS.items()))
        with formatter.section("Losses"):
            formatter.write_dl([*LOSSES.items(), *HEADS.items()])
        with formatter.section(f"Parameters of {owner.__name__}, for --set"):
            formatter.write_dl(describe_parameters(owner))


class _RefreshEvery(click.Option):
    """Its default is the schedule's, which is there with PyTorch only."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        try:
            from sylvan.neural import RefreshSchedule
        except ImportError:
            return record
        usual = ", ".join(f"{RefreshSchedule.for_classes(n).every} with {counted(n, 'class')}" for n in _SIZES)
        return None if record is None else (record[0], f"{record[1]} [default: {usual}]")


class _Tasks(LazyGroup):
    """One command a task."""

    title, lines = "Tasks", TASKS

    def make(self, name: str) -> click.Command:
        return _task_command(name)


@click.group("task", cls=_Tasks, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Train a network with a softmax over many classes, by any sampler and loss, and measure it.

    Needs PyTorch: pip install "sylvan[neural]".

    \b
    Example:
      sylvan task language-model texts/ --sampler midx-rq --epochs 10 --out runs/lm
    """
    need_subcommand(ctx)


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of samplers, losses and parameters; PyTorch is loaded for them, so only where they are asked for."""
    try:
        from sylvan.sampling.by_name import HEADS, LOSSES, SAMPLERS

        if parameter.name == "settings":
            named = [(words.partition("=")[0] + "=", allowed) for words, allowed in
                     describe_parameters(_owner_of(str(ctx.command.name)))]  # fmt: skip
        else:
            named = list((SAMPLERS if parameter.name == "sampler" else {**LOSSES, **HEADS}).items())
    except (ImportError, ParameterError):
        return []
    return [CompletionItem(name, help=line) for name, line in named if name.startswith(incomplete)]


_training_options = together(
    click.option("--resume/--no-resume", default=None,
                 help="Resume from the checkpoint in --out, or start again although there is one."),
    click.option("--device", default="auto", show_default=True, metavar="NAME",
                 help="cpu, cuda, cuda:1, ...; auto takes CUDA if there is one."),
    click.option("--clip-norm", type=float, metavar="X", help="Maximum norm of the gradients."),
    click.option("--evaluate-every", type=int, metavar="N", help="Evaluate every N steps instead of once per epoch."),
    click.option("--time-limit", type=float, metavar="SECONDS", help="Stop after this many seconds."),
    click.option("--max-steps", type=int, metavar="N", help="Stop after N steps."),
    click.option("--patience", type=int, metavar="N", help="Stop after N evaluations without improvement."),
    click.option("--epochs", type=int, default=10, show_default=True, metavar="N", help="Maximum number of epochs."),
    click.option("--seed", "seeds", type=click.IntRange(min=0), multiple=True, metavar="N",
                 help="Seed of all random numbers; repeat it to train once with each. [default: 0]"),
)  # fmt: skip


_model_options = together(
    click.option("--refresh-every", type=int, metavar="N",
                 cls=_RefreshEvery, help="Steps between two refreshes of the sampler's index."),
    click.option("--set-loss", "loss_settings", multiple=True, metavar="NAME=VALUE",
                 help="A parameter of the loss; repeat it for several."),
    click.option("--set-sampler", "sampler_settings", multiple=True, metavar="NAME=VALUE",
                 help="A parameter of the sampler; repeat it for several."),
    click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", shell_complete=_complete,
                 help="A parameter of the task (below); repeat it for several."),
    click.option("--samples", type=int, metavar="N", help="Negatives: the same as --set n_samples=N. [default: "
                 "the task's number, or half of the classes where that is less]"),
    click.option("--loss", metavar="NAME", default="auto", show_default=True, shell_complete=_complete,
                 help="What is minimised (below); full needs no sampler. auto is head-and-tail, but sampled-softmax "
                 "for in-batch negatives."),
    click.option("--sampler", metavar="NAME", default="midx-aware-rq", show_default=True, shell_complete=_complete,
                 help="Where negatives come from (below)."),
)  # fmt: skip


def _task_command(task: str) -> click.Command:
    module: Any = importlib.import_module(_module_of(task))
    own_options: Callable[[_Function], _Function] = module.options

    @click.command(task, cls=_TaskCommand, short_help=TASKS[task], help=module.HELP)
    @click.argument("data", metavar="DATA...", nargs=-1, required=True)
    @click.option("--out", "folder", required=True, metavar="FOLDER",
                  help="Folder for results.json, convergence.png and .svg, checkpoint and best model.")  # fmt: skip
    @_model_options
    @_training_options
    @own_options
    @shared_options
    @click.pass_context
    def run_task(ctx: click.Context, /, **given: Any) -> None:
        owner = _owner_of(task)  # says what is missing where PyTorch isn't there
        from sylvan.cli.tasks.runs import run

        run(ctx, owner, module, given)

    for parameter in run_task.params:
        if isinstance(parameter, click.Option) and parameter.name in getattr(module, "DEFAULTS", {}):
            parameter.default, parameter.show_default = module.DEFAULTS[parameter.name], True
    return run_task
