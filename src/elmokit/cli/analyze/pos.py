"""`elmokit analyze pos`: what each layer knows of parts of speech (Table 6)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from elmokit.cli.analyze.data_folder import find_data
from elmokit.cli.analyze.options import (
    JsonOption,
    OutputOption,
    OverwriteOption,
    ThreadsOption,
    check_output,
    finish,
    load_embedder,
)
from elmokit.cli.model_option import DEFAULT_MODEL, ModelOption
from elmokit.cli.progress import progress_bar
from elmokit.cli.stopped import resume_hint
from elmokit.cli.task_options import SeedsOption, parse_seeds

if TYPE_CHECKING:
    from elmokit.analysis.probes.pos import TagSet

QUICK_SENTENCES = 2000
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="A treebank: one *train.conllu, *dev.conllu and *test.conllu; .gz .xz .bz2 work."),
]
TagsOption = Annotated[
    Literal["xpos", "upos", "both"],
    typer.Option("--tags", help="The treebank's own tags (xpos), universal tags (upos), or both."),
]


def pos(
    model: ModelOption = DEFAULT_MODEL,
    data: DataOption = None,
    tags: TagsOption = "xpos",
    seeds: SeedsOption = "0 1 2",
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Only the first {QUICK_SENTENCES:,} sentences of each file.")
    ] = False,
    threads: ThreadsOption = None,
    output: OutputOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Probe each layer for part-of-speech tags with a linear classifier (Table 6).

    Without --data the treebank is pos/ud_ewt in $ELMOKIT_DATA. Layers are cached: the next run on the same model and
    sentences starts with the probes.

    \b
    Examples:
      elmokit analyze pos --data ud_ewt --tags both --output report
      elmokit analyze pos --data ud_ewt --quick --seeds 0
    """  # noqa: D301
    check_output(output, overwrite)
    folder, numbers = find_data(data, "pos/ud_ewt"), parse_seeds(seeds)
    kinds: list[TagSet] = ["xpos", "upos"] if tags == "both" else [tags]
    from elmokit.analysis.kept_layers import keep_layers
    from elmokit.analysis.probes.layers import find_file, probe_tags
    from elmokit.analysis.probes.pos import read_pos
    from elmokit.analysis.probes.report import pos_report
    from elmokit.tasks.layer_store import LayerStore

    paths = {name: find_file(folder, f"{name}.conllu") for name in ("train", "dev", "test")}
    limit = QUICK_SENTENCES if quick else None
    read = {
        kind: {name: read_pos(path, tags=kind, max_sentences=limit) for name, path in paths.items()} for kind in kinds
    }
    sets = read[kinds[0]]
    store = LayerStore(load_embedder(model, threads))
    sentences = [tokens for own in sets.values() for tokens in own.sentences]
    with resume_hint(), progress_bar("embedding") as bar:
        embed = keep_layers(store, sentences, bar)
    with progress_bar("probes") as bar:
        results = {}
        for number, kind in enumerate(kinds):
            if bar is not None:
                bar(number, len(kinds))
            results[kind] = probe_tags(embed, read[kind], metric="accuracy", seeds=numbers)
    num_tokens = {name: len(own.flat_tags) for name, own in sets.items()}
    finish(pos_report(results, model=model, data=folder.name, num_tokens=num_tokens), output, as_json, overwrite)
