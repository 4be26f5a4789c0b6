"""Small files of senses, written by hand: a tagged text, a set to disambiguate and an index."""

import io
import lzma
import tarfile
from pathlib import Path

INDEX = """\
bank%1:14:00:: 08420278 2 20
bank%1:17:01:: 09213565 1 25
bank%1:06:00:: 04139859 3 0
play%1:04:01:: 00545501 1 3
play%2:33:00:: 01072949 1 45
stand%2:35:00:: 01546111 1 80
take_place%2:30:00:: 00339934 1 30
kind%5:00:00:good:01 01372948 2 1
kind%3:00:00:: 01372049 1 5
rare%3:00:00:: 01067415 1 5
"""
TEXT = """\
<contextfile concordance=brown>
<context filename=br-x01 paras=yes>
<p pnum=1>
<s snum=1>
<wf cmd=ignore pos=DT>The</wf>
<wf cmd=done pos=NN lemma=bank wnsn=2 lexsn=1:14:00::>bank</wf>
<wf cmd=done pos=VB lemma=take_place wnsn=1 lexsn=2:30:00::>took_place</wf>
<wf cmd=ignore pos=TO>_to</wf>
<punc>.</punc>
</s>
<s snum=2>
<wf cmd=done rdf=person pos=NNP lemma=person wnsn=1 lexsn=1:03:00:: pn=person>Mr._Lee</wf>
<wf cmd=done sep="-" pos=NN lemma=bank wnsn=1;2 lexsn=1:17:01::;1:14:00::>banks</wf>
<wf cmd=done pos=VB lemma=show wnsn=0 lexsn=2:39:04::>showed</wf>
<wf cmd=done pos=NN lemma=play wnsn=0;1 lexsn=1:10:99::;1:04:01::>play</wf>
<wf cmd=done pos=JJ lemma=kind wnsn=2 lexsn=5:00:00:good(a):01>kind</wf>
<wf cmd=tag pos=VB ot=notag>be</wf>
</s>
</p>
</context>
</contextfile>
"""
DATA = """\
<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="tiny">
<text id="tiny.d000">
<sentence id="tiny.d000.s000">
<wf lemma="the" pos="DET">The</wf>
<instance id="tiny.d000.s000.t000" lemma="bank" pos="NOUN">bank</instance>
<wf lemma="'s" pos="PRT">&apos;s</wf>
<instance id="tiny.d000.s000.t001" lemma="take_place" pos="VERB">takes place</instance>
</sentence>
<sentence id="tiny.d000.s001">
<instance id="tiny.d000.s001.t000" lemma="kind" pos="ADJ">caf&#233;_kind</instance>
</sentence>
</text>
</corpus>
"""
GOLD = """\
tiny.d000.s000.t000 bank%1:14:00::
tiny.d000.s000.t001 take_place%2:30:00::
tiny.d000.s001.t000 kind%5:00:00:good:01 kind%3:00:00::
"""


def write_index(path: Path, text: str = INDEX) -> Path:
    path.write_bytes(lzma.compress(text.encode()))
    return path


def write_semcor(path: Path, texts: dict[str, str]) -> Path:
    with tarfile.open(path, f"w:{path.suffix[1:]}") as archive:  # type: ignore[call-overload]
        for name, text in {"semcor3.0/LICENSE": "free", **texts}.items():
            member = tarfile.TarInfo(name)
            content = text.encode()
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def write_set(folder: Path, data: str = DATA, gold: str = GOLD) -> Path:
    folder.mkdir()
    (folder / f"{folder.name}.data.xml.xz").write_bytes(lzma.compress(data.encode()))
    (folder / f"{folder.name}.gold.key.txt").write_text(gold, encoding="utf-8")
    return folder
