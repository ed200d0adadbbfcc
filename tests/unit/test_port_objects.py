"""The collection of objects that the core reads."""

from tests.support.manifests import node, objects, pod, queue

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Node, Pod
from tierwise.api.natural import natural
from tierwise.port import Key, Objects, key_of, key_of_raw

POD = Key("", "Pod", "default", "p1")


def test_records_stand_in_natural_order_whatever_the_input_order() -> None:
    """Names are ordered as people expect: n2 before n10."""
    world = objects(node("n10"), node("n2"), node("n1"))

    assert ["n1", "n2", "n10"] == list(world.every(Node))


def test_keys_name_the_namespace_only_where_there_is_one() -> None:
    """A pod without a namespace lives in "default"; a node lives in none, whatever its manifest says."""
    bare: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1"}}
    placed: Raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0", "namespace": "x"}}

    assert POD == key_of_raw(bare) == key_of(codec.decode(bare))
    assert Key("", "Node", "", "n0") == key_of_raw(placed) == key_of(codec.decode(placed))
    assert ("Pod default/p1", "Node n0") == (str(POD), str(key_of_raw(placed)))


def test_unknown_kinds_are_kept_with_their_manifests() -> None:
    """An object of a kind that tierwise does not know can still be looked up."""
    raw: Raw = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "a"}}
    world = objects(raw)

    assert [Key("apps", "Deployment", "a", "web")] == list(world)
    assert raw == world.raw(Key("apps", "Deployment", "a", "web"))


def test_a_change_leaves_the_old_objects_alone() -> None:
    """Objects are a value: a change gives new ones with the next version."""
    old = objects(pod("p1"), node("n0"))
    new = old.changed({POD: pod("p1", nodeName="n0")})

    assert ("", "n0") == (old.every(Pod)["default/p1"].spec.node_name, new.every(Pod)["default/p1"].spec.node_name)
    assert old.version + 1 == new.version


def test_added_objects_take_their_place_in_the_order() -> None:
    """What is added later stands where it would have stood from the start."""
    world = objects(pod("p1"), pod("p10")).changed({key_of_raw(pod("p2")): pod("p2")}, [POD])

    assert ["default/p2", "default/p10"] == list(world.every(Pod))
    assert world.raw(POD) is None


def test_what_is_deleted_and_put_at_once_is_there() -> None:
    """Deletions come first, so a replacement survives."""
    world = objects(pod("p1")).changed({POD: pod("p1", nodeName="n7")}, [POD])

    assert "n7" == world.every(Pod)["default/p1"].spec.node_name


def test_objects_are_alike_until_their_kind_changes() -> None:
    """A change of pods says nothing about nodes."""
    old = objects(pod("p1"), node("n0"), queue("q"))
    new = old.changed({POD: pod("p1", nodeName="n0")})

    assert new.alike(old, Node)
    assert not new.alike(old, Node, Pod)
    assert objects().alike(objects(queue("q")), Node, Pod)


def test_of_two_manifests_with_one_identity_the_later_counts() -> None:
    """Loading a directory twice gives what applying it twice would give."""
    first, second = pod("p1"), pod("p1", nodeName="n1")
    world = Objects.of([(codec.decode(first), first), (codec.decode(second), second)])

    assert 1 == len(world)
    assert second == world.raw(POD)


def test_changes_are_found_between_any_two_states() -> None:
    """Forwards, backwards, on another branch and beyond what is remembered: by identity, in natural order."""
    start = objects(*(pod(f"p{i}") for i in range(12)))
    states = [start]
    for step in range(300):
        raw = pod(f"p{step % 15}", nodeName=f"n{step}")
        gone = [Key("", "Pod", "default", f"p{(step + 4) % 15}")] if step % 3 == 0 else []
        states.append(states[-1].changed({key_of_raw(raw): raw}, gone))
    branch = states[5].changed({POD: pod("p1", nodeName="elsewhere")})
    states.append(branch.changed({}, [POD]))

    def compared(now: Objects, then: Objects) -> list[str]:
        new, old = now.every(Pod), then.every(Pod)
        return sorted((p for p in {**new, **old} if new.get(p) is not old.get(p)), key=natural)

    def followed(now: Objects, then: Objects) -> dict[type[Pod], list[tuple[str, Pod | None]]]:
        pods = [(path, now.every(Pod).get(path)) for path in compared(now, then)]
        return {Pod: pods} if pods else {}

    picked = [*states[:9], *states[150:156], states[170], *states[-4:]]
    for then in picked:
        for now in picked:
            assert compared(now, then) == now.changes(then, Pod)
            found = now.changed_objects(then)
            assert followed(now, then) == {of: [(key.path, r) for key, r in own.items()] for of, own in found.items()}
            assert (found, {}) == (now.changed_objects(then, Pod), now.changed_objects(then, Node))
            assert list(now.every(Pod)) == sorted(now.every(Pod), key=natural)
            assert [*now.every(Pod).items()] == [*zip(now.every(Pod), now.every(Pod).values(), strict=True)]


def test_a_long_history_reads_like_a_dictionary() -> None:
    """What lies over the base of a table, and what is folded into it, is the same as in plain dictionaries."""
    world, plain = objects(*(pod(f"p{i}") for i in range(40))), {f"default/p{i}": pod(f"p{i}") for i in range(40)}
    for step in range(60):
        put = [pod(f"p{(step * 7 + i * 5) % 90}", nodeName=f"n{step}") for i in range(1 + step % 4)]
        gone = [f"p{(step * 11 + i) % 90}" for i in range(step % 3)]
        world = world.changed({key_of_raw(raw): raw for raw in put}, [Key("", "Pod", "default", name) for name in gone])
        plain = {path: raw for path, raw in plain.items() if path.removeprefix("default/") not in gone}
        plain |= {key_of_raw(raw).path: raw for raw in put}
        pods = world.every(Pod)

        assert sorted(plain, key=natural) == list(pods)
        assert [plain[path] for path in pods] == [world.raw(Key("", "Pod", "default", p[8:])) for p in pods]
        assert (len(plain), len(plain)) == (len(pods), len(world))
        assert [codec.decode(plain[path]) for path in pods] == list(pods.values())
        assert [path in plain for path in ("default/p3", "default/p80")] == [
            path in pods for path in ("default/p3", "default/p80")
        ]


def test_the_manifest_of_an_object_that_went_is_not_that_of_its_successor() -> None:
    """A record may come without its manifest: it keeps the one of an object that is there, and of no other."""
    world, record = objects(pod("p1")), codec.decode(pod("p1", nodeName="n1"))

    assert pod("p1") == world.updated({POD: (record, None)}, (), 1).raw(POD)
    assert world.updated({}, [POD], 1).updated({POD: (record, None)}, (), 2).raw(POD) is None
