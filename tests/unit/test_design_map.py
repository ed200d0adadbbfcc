"""The map from the design documents to the code leads to code, commands and headings that exist."""

import ast
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.commands import run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "design-map.md"
TEXT = PAGE.read_text(encoding="utf-8")

_NAMED = (
    "HyperNode Tier MemberSelector AllocatedHyperNode SubJob LCA MatchIndex HyperNodeGradientForJobFn HyperNodeOrderFn "
    "BatchNodeOrderFn SubJobReadyFn SubJobOrderFn JobWorksheet allocateForSubJob Statement partitionPolicy propose "
    "GangPredicateFn GangSearchSpaceFn SearchPurpose GangVictimSelectorFn SelectGangVictimsInDomain ROI "
    "NominatedNodeName AppGroup KahnSort TarjanSort AlternateKahn AlternateTarjan ReverseKahn ReverseTarjan "
    "minBandwidth maxNetworkCost TopologicalSort NetworkOverhead NormalizeScore ClusterNetworkTopology MustGather "
    "PreferGather communicationMode FindBestNode hyperNodeTree FirstPod NextPod Permit ElasticQuota RealNodesSet "
    "hyperNodeResourceCache EventHandler scoreWithTaskNum getSearchRoot isEligibleHyperNode "
    "GetGangValidDomains SafeTasks CoreTasks GlobalSurplus RoleSurplus LocalGainScore GlobalCostScore NeededResources "
    "ValidBundles OrderedCandidates AppGroupWorkload DependenciesList MatchValues jobsByQueue SimulateAndExecute "
    "QueueOrderFn"
)
"""Names that readers of the documents look for first; the page has more."""


class Row(NamedTuple):
    """A row of the map: a name of a document, and what stands for it here."""

    name: str
    here: str
    code: str
    seen_by: str
    differs: str


_SECTIONS = re.split(r"^## (\d{3}): .+\n", TEXT, flags=re.MULTILINE)[1:]
ROWS = {
    document: [
        Row(*(cell.strip() for cell in line.strip("|").split("|")))
        for line in body.splitlines()
        if line.startswith("| ") and not line.startswith("| Name ")
    ]
    for document, body in zip(_SECTIONS[::2], _SECTIONS[1::2], strict=True)
}
_CODE = re.compile(r"`(\w+)` in \[`[\w/]+\.py`\]\((\S+\.py)\)")
_COMMAND = re.compile(r"^\$ tierwise (.+)$", re.MULTILINE)
COMMANDS = {
    title.lower().replace(" ", "-"): _COMMAND.findall(body)
    for title, body in re.findall(r"^### (.+)\n((?:(?!^### ).*\n)*)", TEXT.partition("## Commands")[2], re.MULTILINE)
}


def _defined(path: Path) -> set[str]:
    """Names of all functions, classes and variables that a source file defines."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def test_all_five_documents_are_mapped() -> None:
    """Each document has rows, every name that is looked for has one, and no name has two in one document."""
    names = [row.name for rows in ROWS.values() for row in rows]

    assert ["000", "001", "002", "003", "004"] == sorted(ROWS)
    assert [] == [name for name in _NAMED.split() if not any(re.search(rf"\b{name}\b", text) for text in names)]
    assert len(names) == len(set(names)) >= 68


@pytest.mark.parametrize("document", sorted(ROWS))
def test_every_row_leads_to_code_that_exists(document: str) -> None:
    """A row names a function, class or variable of the file that it links to; without one it says why."""
    wrong = []
    for row in ROWS[document]:
        found = _CODE.fullmatch(row.code)
        if found is None and (row.code, row.here) == ("none", "none") and row.differs != "nothing":
            continue
        if found is None or found[1] not in _defined((PAGE.parent / found[2]).resolve()):
            wrong.append(row)

    assert [] == wrong


@pytest.mark.parametrize("document", sorted(ROWS))
def test_every_row_leads_to_a_command(document: str) -> None:
    """A row with code links to a heading below which a command stands."""
    seen = [(row.name, re.search(r"\(#(.+)\)$", row.seen_by)) for row in ROWS[document] if row.code != "none"]

    assert [] == [name for name, link in seen if link is None or not COMMANDS.get(link[1])]


@pytest.mark.parametrize("command", sorted({command for commands in COMMANDS.values() for command in commands}))
def test_every_command_shows_something(command: str) -> None:
    """Each command runs on the examples, and prints."""
    words = shlex.split(command)
    done = run(*(str(ROOT / word) if word.startswith("examples/") else _from(word) for word in words))

    assert done.stdout
    assert done.exit_code == (1 if words[0] == "validate" else 0)


def _from(word: str) -> str:
    """A word whose path is that of the checkout, where it names a source of a topology."""
    kind, colon, path = word.partition(":")
    return f"{kind}:{ROOT / path}" if colon and path.startswith("examples/") else word
