"""The manifest loader: every form that it takes, and one clear line for every one that it refuses."""

import io
from pathlib import Path

import pytest

from tierwise.api.errors import InputError
from tierwise.manifests.files import Remarks, read

NODE = "apiVersion: v1\nkind: Node\nmetadata:\n  name: {}\n"
JSON_NODE = '{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{}"}}}}'


def load(data: str | bytes) -> list[str]:
    """The names of the objects in a text given on standard input."""
    stream = io.BytesIO(data.encode() if isinstance(data, str) else data)
    return [loaded.record.metadata.name for loaded in read(["-"], stream)]


def complaint(data: str | bytes) -> str:
    """What is said about a text that is refused."""
    with pytest.raises(InputError) as caught:
        load(data)
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        NODE.format("a") + "---\n" + NODE.format("b"),
        "---\n---\n# none\n---\n" + NODE.format("a") + "---\n" + NODE.format("b") + "---\n",
        ("\ufeff" + NODE.format("a") + "---\n" + NODE.format("b")).replace("\n", "\r\n"),
        JSON_NODE.format("a") + "\n" + JSON_NODE.format("b") + "\n\n",
        JSON_NODE.format("a").replace(" ", "\n") + JSON_NODE.format("b"),
        '{"kind": "List", "items": [' + JSON_NODE.format("a") + "," + JSON_NODE.format("b") + "]}",
        "{kind: List, items: [" + JSON_NODE.format("a") + ", {kind: List, items: [" + JSON_NODE.format("b") + "]}]}",
        "apiVersion: v1\nkind: NodeList\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n",
        JSON_NODE.format("a") + "\n---\n" + JSON_NODE.format("b"),
    ],
)
def test_every_form_gives_the_same_objects(text: str) -> None:
    """YAML documents, JSON, JSON lines, JSON in sequence, lists, lists within lists and typed lists."""
    assert ["a", "b"] == load(text)


def test_an_empty_list_is_no_mistake() -> None:
    """What kubectl prints where there is nothing."""
    assert [] == load("apiVersion: v1\nkind: List\nitems: []\n")


def test_folders_are_read_in_order(tmp_path: Path) -> None:
    """Below a folder, manifests count in sorted order, hidden and other files do not."""
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    for name, node in (("b.yaml", "b"), ("a.json", "a"), ("sub/c.yml", "c"), (".git/x.yaml", "x"), ("notes.txt", "y")):
        text = JSON_NODE if name.endswith("json") else NODE
        (tmp_path / name).write_text(text.format(node))
    found = read([str(tmp_path)])

    assert ["a.json#1", "b.yaml#1", "sub/c.yml#1"] == [loaded.source[len(str(tmp_path)) + 1 :] for loaded in found]


def test_text_streams_are_read_too() -> None:
    """Standard input may be wrapped in a text stream, or be one without bytes below."""
    for stream in (io.TextIOWrapper(io.BytesIO(NODE.format("a").encode())), io.StringIO(NODE.format("a"))):
        assert ["Node"] == [loaded.raw["kind"] for loaded in read(["-"], stream)]


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    """The callback is told bytes done of bytes in all, ever more, and at the end all."""
    padding = "# " + "x" * 60 + "\n"
    for part in range(2):
        documents = (NODE.format(f"n{part}-{index}") + padding * 400 for index in range(100))
        (tmp_path / f"{part}.yaml").write_text("---\n".join(documents))
    total = sum(file.stat().st_size for file in tmp_path.iterdir())
    calls: list[tuple[int, int]] = []
    read([str(tmp_path)], progress=lambda done, whole: calls.append((done, whole)))

    assert len(calls) > 3
    assert sorted(calls) == calls
    assert (total, total) == calls[-1]


@pytest.mark.parametrize("text", ["", "\n \n", "---\n---\n", "# nothing\n"])
def test_nothing_at_all_is_a_mistake(text: str) -> None:
    """A file without objects was not meant."""
    assert "standard input: holds no objects" == complaint(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("just words\n", "standard input#1: an object is expected, not a string"),
        ("- a\n", "standard input#1: an object is expected, not a list"),
        (NODE.format("a") + "---\nfoo: bar\n", "standard input#2: kind: the kind is missing"),
        ("a: [\n", "standard input:2:1: did not find expected node content"),
        (b"\x7fELF\x02\x01\x00\xff\xfe", "standard input:1:8: the text is not UTF-8"),
        ("a: \x00\n", "standard input:1:4: the control character 0x00 is not allowed in YAML"),
        ("{kind: List, items: 3}", "standard input#1: List: items: expected a list"),
        ("{kind: List, items: [3]}", "standard input#1: an object is expected, not an integer"),
        (
            NODE.format("a") + "  labels: {team: yes}\n",
            "metadata.labels.team: expected a string, got a boolean (quote it)",
        ),
        (
            NODE.format("a") + "  labels: {team: 1}\n",
            "metadata.labels.team: expected a string, got an integer (quote it)",
        ),
        (NODE.format("yes"), "standard input#1: Node: metadata.name: expected a string, got a boolean"),
        (
            NODE.format("a") + "---\n" + NODE.format("a"),
            "standard input#2: Node a: given twice, first in standard input#1",
        ),
        (NODE.format("a") + "spec: {}\nspec: {}\n", 'standard input:6:1: the key "spec" is given twice'),
        ('{"a":' * 100_000, "nested more than 200 deep"),
    ],
)
def test_bad_texts_are_refused_in_one_line(text: str | bytes, expected: str) -> None:
    """File, place, object and field, as far as they are known."""
    found = complaint(text)

    assert expected in found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"kind": "Node",', "x.json:1:17: "),
        ("kind: Node\n", "x.json:1:1: "),
        ('{"a": NaN}', "x.json:1: "),
        ('{"a": "\\ud800"}', "x.json:1: "),
        ('{"a":' * 100_000, "x.json: nested too deeply"),
        ('{"a": 1}\n{"a": "\xff', "x.json:2: "),
    ],
)
def test_files_named_json_must_be_json(tmp_path: Path, text: str, expected: str) -> None:
    """Nothing else will do, and the message says where it stops being JSON."""
    file = tmp_path / "x.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as caught:
        read([str(file)])

    assert expected in str(caught.value)


def test_the_same_object_in_two_files_is_refused(tmp_path: Path) -> None:
    """Versions and a spelled-out default namespace do not make it another object."""
    pod = "{{apiVersion: {}, kind: PodGroup, metadata: {{name: g{}}}}}"
    (tmp_path / "a.yaml").write_text(pod.format("scheduling.k8s.io/v1beta1", ""))
    (tmp_path / "b.yaml").write_text(pod.format("scheduling.k8s.io/v1alpha2", ", namespace: default"))
    with pytest.raises(InputError, match=r"b.yaml#1: PodGroup default/g: given twice, first in .*a.yaml#1$"):
        read([str(tmp_path)])


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    """Missing files, folders without manifests, impossible names, no standard input."""
    for path, reason in (
        (tmp_path / "gone.yaml", "No such file"),
        (tmp_path, "holds no objects"),
        ("a\0b", "embedded null"),
    ):
        with pytest.raises(InputError, match=reason):
            read([str(path)])
    with pytest.raises(InputError, match="standard input: there is none"):
        read(["-"])


OTHERS = {
    "kustomization.yaml": "resources: [a.yaml]\n",
    "named/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
    "values.yaml": "replicas: 3\nimage: {tag: latest}\n",
    "Chart.yaml": "apiVersion: v2\nname: chart\nversion: 1.0.0\n",
    "templates/pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n  {{- if .x }}\n",
    "empty.yaml": "",
    "comments.yaml": "# nothing\n---\n# here\n",
    "scheduler.conf.yaml": "actions: allocate\ntiers: []\n",
    "kube.yaml": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
    "kind.yaml": "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes: []\n",
    "package.json": '{"name": "x", "version": "1"}',
    "list.json": "[1, 2]",
}


def test_folders_are_read_as_people_have_them(tmp_path: Path) -> None:
    """What is no manifest is left out and named; the manifests beside it are read."""
    for name, text in {**OTHERS, "node.yaml": NODE.format("a")}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    remarks = Remarks()

    found = read([str(tmp_path)], remarks=remarks)

    assert ["a"] == [loaded.record.metadata.name for loaded in found]
    assert sorted(OTHERS) == sorted(str(Path(name).relative_to(tmp_path)) for name, _ in remarks.left_out)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metadata: {name: a}\nspec: {}\n", "kind: the kind is missing"),
        ("apiVersion: v1\nkind: Node\nmetadata: {}\n", "the object has no name"),
        ("apiVersion: v1\nkind: Node\n", "the object has no name"),
        ("apiVersion: x/v1\nkind: Other\nmetadata: {labels: {}}\n", "the object has no name"),
        ("a: [\n", "did not find expected node content"),
    ],
)
def test_a_broken_manifest_in_a_folder_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    """What was meant for a manifest is not passed over because it is wrong."""
    (tmp_path / "a.yaml").write_text(text)

    with pytest.raises(InputError, match=expected):
        read([str(tmp_path)])


def test_names_are_generated_the_same_every_time() -> None:
    """Objects with a generateName are numbered within their kind, namespace and prefix."""
    run = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: run-}\n---\n"
    other = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: run-, namespace: b}\n---\n"

    assert ["run-00001", "run-00002", "run-00001"] == load(run + run + other)
    assert "the object has no name" in complaint(run.replace("run-", '""'))


def test_faults_are_gathered_where_that_is_asked_for(tmp_path: Path) -> None:
    """One bad object hides neither the others of its file nor other files."""
    bad = "apiVersion: v1\nkind: Node\nmetadata: {name: 3}\n---\n"
    (tmp_path / "a.yaml").write_text(bad + NODE.format("a") + "---\n" + bad)
    (tmp_path / "b.yaml").write_text("a: [\n")
    (tmp_path / "c.yaml").write_text(NODE.format("c") + "---\n" + NODE.format("a"))
    remarks = Remarks(faults=[])

    found = read([str(tmp_path)], remarks=remarks)

    assert ["a", "c"] == [loaded.record.metadata.name for loaded in found]
    assert ["a.yaml#1", "a.yaml#3", "b.yaml:2:1"] == [Path(str(f.file)).name for f in remarks.faults or []]
    assert [("c.yaml", f"what {tmp_path}/a.yaml has already, such as Node a")] == [
        (Path(name).name, what) for name, what in remarks.left_out
    ]
