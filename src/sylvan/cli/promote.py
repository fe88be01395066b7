"""``sylvan promote``: a model takes the place of another where it is better by more than chance."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from typing import Any

import click

from sylvan import store
from sylvan.cli import options as of
from sylvan.cli.details import LEAST_P, show_side_by_side, side_by_side
from sylvan.cli.evaluate import LEARNED, Measured, measure
from sylvan.cli.groups import titles_for
from sylvan.cli.io.inputs import TextInput
from sylvan.cli.io.matrices import MatrixInput
from sylvan.cli.models import codes_of, input_for, learned_rows, load_model, training_name
from sylvan.cli.session import Session, keep_inputs, quietly, say, write_text
from sylvan.errors import DataError, ModelError
from sylvan.params.wording import counted

NOT_BETTER, WORSE = 3, 4  # exit codes
_MEASURES = ("P", "R", "nDCG", "F1")


def _measure(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[str, int]:
    """A click callback: ``nDCG@5`` as the name of the measure and how many answers it is over."""
    name, _, k = value.partition("@")
    if name not in _MEASURES or not k.isdecimal() or not 1 <= int(k) <= of.MOST:
        words = f"must be {', '.join(_MEASURES[:-1])} or {_MEASURES[-1]} of the first 1 to {of.MOST} answers"
        raise click.BadParameter(f"{words}, such as nDCG@5. Got {value!r} instead.")
    return name, int(k)


@click.command("promote")
@click.argument("candidate", metavar="CANDIDATE")
@click.argument("live", metavar="LIVE")
@click.argument("test", metavar="FILE")
@click.option("--by", default="nDCG@5", show_default=True, callback=_measure, metavar="MEASURE",
              help="What decides: P, R, nDCG or F1 of the first answers, such as P@1.")  # fmt: skip
@click.option("--significance", type=of.Share(above_zero=True), default=0.05, show_default=True,
              metavar="P", help="How often chance alone may give as large a difference.")  # fmt: skip
@click.option("--keep", type=click.IntRange(1, 1000), default=1, show_default=True, metavar="N",
              help="Earlier versions that stay in LIVE, for 'sylvan update LIVE --undo'.")  # fmt: skip
@click.option("--json", "json_", metavar="FILE", help="Write what was compared as a line of JSON (- for stdout alone).")
@of.device_option
@of.subjects_options
@of.input_options
@of.config_option
@click.pass_context
def command(ctx: click.Context, /, candidate: str, live: str, test: str, json_: str | None, **flags: Any) -> None:
    """Put the model in the folder CANDIDATE in the place of that in LIVE, where it is better on FILE by more than
    chance: by a paired permutation test over FILE's rows, which neither has learned from.

    LIVE gets the new version in one step: servers take it up, and the old one stays in LIVE for going back. CANDIDATE
    stays as it is.

    The exit code is 0 where CANDIDATE was promoted, 3 where it is neither better nor worse by more than chance, 4 where
    it is worse, 2 for wrong usage or a file or folder that can't be read.

    \b
    Examples:
      sylvan promote runs/candidate runs/live dev.jsonl
      sylvan promote runs/candidate runs/live dev.jsonl --by P@1 --significance 0.01
      sylvan promote runs/candidate runs/live dev.jsonl --json - >> promotions.jsonl
      sylvan update runs/live --undo
    """
    keep_inputs("json_")
    name, k = flags["by"]
    versions = _versions(candidate, live, test)
    session, by = Session.of(ctx), f"{name}@{k}"
    with store.updating(live), quietly(flags):
        state = store.load(candidate, verify=True)
        models = [load_model(folder, (), flags["threads"], flags["device"]) for folder in (live, candidate)]
        _note_missing(candidate, live, models[1], models[0], flags)
        both = [_measured(*each, test, k, flags) for each in zip((live, candidate), models, strict=True)]
        found = side_by_side(both[0], both[1], (k,))
        is_sure = found[by]["p"] < flags["significance"]
        is_better = is_sure and found[by]["difference"] > 0
        if is_better:
            if _versions(candidate, live, test) != versions:
                raise ModelError(f"{candidate!r} or {live!r} was changed while they were compared: do it again.")
            session.remains = lambda: (
                f"{live} holds {candidate} now" if store.contents(live)["checksum"] != versions[1] else None
            )
            store.save(live, state, keep=flags["keep"])
    if json_ is not None:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        after = store.contents(live)["checksum"]
        result = {
            "time": now, "promoted": is_better, "by": by, "significance": flags["significance"], "file": test,
            "candidate": {"folder": candidate, "version": versions[0]},
            "live": {"folder": live, "version": versions[1], "version_after": after}, "comparison": found,
        }  # fmt: skip
        write_text(json_, json.dumps(result) + "\n")
    if json_ != "-":
        show_side_by_side(live, candidate, found)
    say(flags, _words(candidate, live, by, found[by], is_sure), err=True)
    if not is_better:
        ctx.exit(WORSE if is_sure else NOT_BETTER)


def _versions(candidate: str, live: str, test: str) -> list[str]:
    """Of the two models; refuse what can't be compared."""
    if test == "-":
        raise DataError("FILE is read twice, and stdin can be read once: save it.")
    if not os.path.exists(live):
        raise ModelError(
            f"There is no model in {live!r} to compare {candidate!r} with: put the first one there yourself, as by "
            f"cp -r {candidate} {live}."
        )
    versions = [str(store.contents(folder)["checksum"]) for folder in (candidate, live)]
    if os.path.samefile(candidate, live):
        raise ModelError(f"{candidate!r} and {live!r} are the same folder: give the new model and the live one.")
    return versions


def _measured(folder: str, model: Any, path: str, k: int, flags: Mapping[str, Any]) -> Measured:
    """What is measured of a model on rows that it hasn't learned from."""
    source: TextInput | MatrixInput = input_for(model, folder, path, titles_for(model, flags)[1])
    n_learned, n_compared = learned_rows(model, source)
    if n_learned > LEARNED * n_compared or training_name(folder, path) is not None:
        raise DataError(
            f"The model in {folder!r} has learned from {path}, which then says nothing of other rows: compare "
            "on rows that neither model has learned from."
        )
    return measure(model, source, (k,))


def _note_missing(candidate: str, live: str, after: Any, before: Any, flags: Mapping[str, Any]) -> None:
    """Say which labels a model would take away."""
    gone = set(before.removed_labels_.tolist())
    names = {code for label, code in enumerate(codes_of(before)) if label not in gone}
    if missing := sorted(names - set(codes_of(after))):
        words = f"{counted(len(missing), 'label')} of {live}, such as {missing[0]!r:.80}"
        say(flags, f"Note: {candidate} doesn't have {words}.", err=True)


def _words(candidate: str, live: str, by: str, found: Mapping[str, Any], is_sure: bool) -> str:
    """What was decided, and why."""
    chance = f"= {found['p']:.4f}" if found["p"] >= LEAST_P else f"< {LEAST_P}"
    gap = f"{by} {100 * found['difference']:+.2f} points, p {chance}"
    if not is_sure:
        return f"Not promoted: {candidate} is neither better nor worse than {live} by more than chance ({gap})."
    if found["difference"] < 0:
        return f"Not promoted: {candidate} is worse than {live} ({gap})."
    return f"Promoted: {live} is {candidate} now, which is better ({gap}); sylvan update {live} --undo goes back."
