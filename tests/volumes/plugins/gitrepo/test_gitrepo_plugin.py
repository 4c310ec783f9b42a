"""gitRepo volumes with a real git and real servers: what a repository says is never done, and a volume is a
whole checkout or none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from git_server import BACKEND, FILE, LINK, MODULE, PROGRAM, TREE, Handler, Repository, serving
from waiting import until

from mooring.kube.objects import GitRepoVolumeSource, ObjectMeta, Pod, Volume
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import InvalidSpec, OutcomeUnknown, VolumeError
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.plugins.gitrepo import GitRepoPlugin
from mooring.volumes.plugins.gitrepo import plugin as _factory
from mooring.volumes.plugins.gitrepo.clone import OWNER, Limits, words
from mooring.volumes.plugins.gitrepo.plugin import WORKSHOPS, done, workshop_of
from mooring.volumes.plugins.gitrepo.source import PLUGIN_NAME
from mooring.volumes.plugins.gitrepo.tree import Size
from mooring.volumes.spec import VolumeSpec

pytestmark = [
    pytest.mark.skipif(
        shutil.which("git") is None or not BACKEND.exists(), reason="needs git: apt-get install git"
    ),
    pytest.mark.timeout(120),
]
POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))


class Stage:
    """A node's plugin, a server, and a file that hostile repositories try to make."""

    def __init__(self, host: NodeVolumeHost, root: Path, url: str) -> None:
        self.host, self.root, self.url = host, root, url
        self.victim = root / "victim"
        self.answer: Callable[[Handler], bool] = lambda _: False
        self.plugin = self.started()

    def started(self, **settings: str) -> GitRepoPlugin:
        self.host = replace(self.host, plugin_settings={PLUGIN_NAME: {"enabled": "true", **settings}})
        self.plugin = _factory()
        self.plugin.init(self.host)
        return self.plugin

    def repository(self, name: str = "site") -> Repository:
        return Repository(self.root / "served" / name)

    async def mounted(
        self, repository: str = "", revision: str = "", directory: str = ".", group: int | None = None
    ) -> Path:
        """The volume."""
        source = GitRepoVolumeSource(repository or f"{self.url}/site", revision, directory)
        mounter = self.plugin.new_mounter(VolumeSpec.of_volume(Volume(name="code", git_repo=source)), POD)
        await mounter.can_mount()
        await mounter.set_up(group)
        return Path(mounter.get_path())

    @property
    def path(self) -> Path:
        return self.host.get_pod_volume_dir("pod-uid", PLUGIN_NAME, "code")

    def harmed(self) -> bool:
        return self.victim.exists()

    def hook(self) -> str:
        return f"#!/bin/sh\ntouch {self.victim}\n"

    def processes(self) -> list[int]:
        """Those of git that work for this node, by their HOME. One that has ended and was not waited for by
        its parent is none."""
        homes = (workshop_of(done(self.host, "pod-uid", "code")), self.root / "workshop")
        marks = [f"HOME={each}\0".encode() for each in homes]
        found: list[int] = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                ended = (each / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
                said = (each / "environ").read_bytes() + (each / "cmdline").read_bytes()
                if not ended and each.stat().st_uid == OWNER and any(mark in said for mark in marks):
                    found.append(int(each.name))
            except OSError:
                continue
        return found

    def left(self) -> list[Path]:
        """What a clone has left beside the volume."""
        return [
            each
            for each in WORKSHOPS.glob("mooring-git-*")
            if each == workshop_of(done(self.host, "pod-uid", "code"))
        ]


@pytest.fixture
def stage(host: NodeVolumeHost, tmp_path: Path) -> Iterator[Stage]:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as url:
        found = Stage(host, tmp_path, url)
        yield found
        assert not found.harmed()
        assert found.left() == []


async def test_a_checkout_is_made_with_files_links_and_what_can_be_run(stage: Stage):
    site = stage.repository()
    inner = site.tree([(FILE, "page", site.blob("inner"))])
    site.commit(
        [(FILE, "index", site.blob("hello")), (PROGRAM, "run", site.blob("#!/bin/sh")), (TREE, "sub", inner),
         (LINK, "link", site.blob("sub/page"))]
    )  # fmt: skip
    path = await stage.mounted()
    assert (path / "index").read_text() == "hello"
    assert (path / "link").read_text() == "inner"
    assert [(path / name).stat().st_mode & 0o777 for name in ("index", "run", "sub")] == [0o644, 0o755, 0o755]
    assert {each.lstat().st_uid for each in path.rglob("*")} == {os.geteuid()}
    assert f"url = {stage.url}/site" in (path / ".git/config").read_text()


async def test_it_is_where_the_volume_says_and_else_where_git_puts_it(stage: Stage):
    site = stage.repository()
    site.commit([(FILE, "index", site.blob("hello"))])
    assert ((await stage.mounted(directory="a/b")) / "a/b/index").read_text() == "hello"
    await stage.plugin.new_unmounter("code", "pod-uid").tear_down()
    assert ((await stage.mounted(directory="")) / "site/index").read_text() == "hello"


@pytest.mark.parametrize("place", ["", "/dumb"])
async def test_a_branch_a_tag_or_a_commit_is_checked_out_by_a_smart_and_by_a_dumb_server(
    stage: Stage, place: str
):
    site = stage.repository()
    first = site.commit([(FILE, "index", site.blob("first"))])
    site.git("tag", "v1")
    site.commit([(FILE, "index", site.blob("second"))], branch="other")
    site.commit([(FILE, "index", site.blob("third"))])
    url = f"{stage.url}{place}/site"
    for revision, content in ((first, "first"), ("v1", "first"), ("other", "second"), ("", "third")):
        path = await stage.mounted(url, revision)
        assert (path / "index").read_text() == content
        await stage.plugin.new_unmounter("code", "pod-uid").tear_down()
        assert not path.exists()


async def test_a_revision_that_is_not_there_makes_no_volume(stage: Stage):
    site = stage.repository()
    site.commit([(FILE, "index", site.blob("x"))])
    with pytest.raises(VolumeError, match="check out"):
        await stage.mounted(revision="nowhere")
    with pytest.raises(VolumeError, match="check out"):
        await stage.mounted(revision="index")  # a file is no revision
    assert list(stage.path.iterdir()) == []


async def test_a_volume_is_made_once_and_what_its_pod_has_made_of_it_stays(stage: Stage):
    site = stage.repository()
    site.commit([(FILE, "index", site.blob("x"))])
    path = await stage.mounted()
    shutil.rmtree(path / ".git")
    (path / "index").unlink()
    stage.started()
    assert list((await stage.mounted()).iterdir()) == []


async def test_a_checkout_of_an_agent_that_was_killed_is_made_anew(stage: Stage):
    site = stage.repository()
    site.commit([(FILE, "index", site.blob("x"))])
    stage.path.mkdir(parents=True)
    (stage.path / "half").touch()
    workshop = workshop_of(done(stage.host, "pod-uid", "code"))
    (workshop / "repository").mkdir(parents=True)
    path = await stage.mounted()
    assert sorted(each.name for each in path.iterdir()) == [".git", "index"]


async def test_the_group_of_the_pod_gets_the_files_and_no_link_leads_it_out(stage: Stage):
    outside = stage.root / "outside"
    outside.touch(0o600)
    site = stage.repository()
    site.commit([(FILE, "index", site.blob("x")), (LINK, "out", site.blob(str(outside)))])
    path = await stage.mounted(group=4321)
    assert (path / "index").stat().st_gid == 4321
    assert outside.stat().st_gid != 4321


async def test_it_is_off_unless_the_operator_switches_it_on(stage: Stage):
    for enabled in ("false", "", "yes"):
        stage.started(enabled=enabled)
        with pytest.raises(InvalidSpec, match=r"init container.*enabled=true"):
            await stage.mounted()
    assert not stage.path.exists()


async def test_the_operator_can_name_the_hosts(stage: Stage):
    stage.started(hosts="git.example.com,other")
    with pytest.raises(InvalidSpec, match=r"git\.example\.com"):
        await stage.mounted()


@pytest.mark.parametrize("setting", ["timeoutSeconds", "maxMiB", "maxFiles"])
async def test_a_limit_that_is_no_number_is_said_to_be(stage: Stage, setting: str):
    stage.started(**{setting: "-1"})
    with pytest.raises(InvalidSpec, match=setting):
        await stage.mounted()


# --- hostile repositories and servers


@pytest.mark.parametrize("place", ["", "/dumb"])
async def test_cve_2018_11235_a_submodule_whose_name_leads_to_a_hook_runs_nothing(stage: Stage, place: str):
    site = stage.repository()
    inner = site.commit([(FILE, "x", site.blob("x"))], branch="inner")
    hooks = site.tree([(PROGRAM, "post-checkout", site.blob(stage.hook()))])
    evil = site.tree([(TREE, "hooks", hooks), (FILE, "HEAD", site.blob("ref: refs/heads/main\n"))])
    modules = f'[submodule "../../evil"]\n\tpath = sub\n\turl = {stage.url}/site\n\tupdate = !touch {stage.victim}\n'
    site.commit([(FILE, ".gitmodules", site.blob(modules)), (TREE, "evil", evil), (MODULE, "sub", inner)])
    if place:  # such a server's objects are not checked by git; nothing is done about them either
        path = await stage.mounted(f"{stage.url}{place}/site")
        assert list((path / "sub").iterdir()) == []
    else:
        with pytest.raises(VolumeError, match="gitmodulesName"):
            await stage.mounted()


@pytest.mark.parametrize("directory", ["g/.git", ".git", "g/.Git", "g/git~1"])
async def test_cve_2024_10220_a_directory_that_would_be_gits_own_is_refused(stage: Stage, directory: str):
    site = stage.repository()
    hooks = site.tree([(PROGRAM, "post-checkout", site.blob(stage.hook()))])
    config = site.blob("[core]\n\trepositoryformatversion = 0\n")
    head = site.blob("ref: refs/heads/main\n")
    empty = site.tree([(FILE, "keep", site.blob(""))])
    site.commit([(TREE, "hooks", hooks), (FILE, "config", config), (FILE, "HEAD", head), (TREE, "objects", empty),
                 (TREE, "refs", empty)])  # fmt: skip
    with pytest.raises(InvalidSpec, match="directory"):
        await stage.mounted(directory=directory, revision="main")
    assert (await stage.mounted(directory="g", revision="main") / "g/hooks/post-checkout").exists()


@pytest.mark.parametrize("place", ["", "/dumb"])
@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", ".g\u200cit"])
async def test_a_repository_with_a_git_directory_in_it_is_refused(stage: Stage, name: str, place: str):
    site = stage.repository()
    hooks = site.tree([(PROGRAM, "post-checkout", site.blob(stage.hook()))])
    site.commit([(TREE, name, site.tree([(TREE, "hooks", hooks)]))])
    with pytest.raises(VolumeError, match="git cannot"):
        await stage.mounted(f"{stage.url}{place}/site")


@pytest.mark.parametrize("place", ["", "/dumb"])
async def test_a_link_is_not_written_through(stage: Stage, place: str):
    outside = stage.root / "outside"
    outside.mkdir()
    site = stage.repository()
    inner = site.tree([(FILE, "passwd", site.blob("evil"))])
    site.commit([(LINK, "a", site.blob(str(outside))), (TREE, "a", inner)])
    with contextlib.suppress(VolumeError):
        await stage.mounted(f"{stage.url}{place}/site")
    assert list(outside.iterdir()) == []


async def test_filters_and_attributes_of_a_repository_run_nothing(stage: Stage):
    site = stage.repository()
    site.commit(
        [(FILE, ".gitattributes", site.blob("* filter=evil ident diff=evil merge=evil\n")),
         (FILE, ".gitconfig", site.blob(f'[filter "evil"]\n\tsmudge = touch {stage.victim}\n')),
         (FILE, ".lfsconfig", site.blob("[lfs]\n\turl = http://127.0.0.1:1/\n")), (FILE, "index", site.blob("$Id$"))]
    )  # fmt: skip
    assert (await stage.mounted() / "index").exists()


@pytest.mark.parametrize("name", ["post-checkout", "reference-transaction", "post-index-change"])
async def test_hooks_and_settings_of_the_nodes_users_are_not_used(
    stage: Stage, name: str, monkeypatch: pytest.MonkeyPatch
):
    home = stage.root / "home"
    hooks = home / "template/hooks"
    hooks.mkdir(parents=True)
    (hooks / name).write_text(stage.hook())
    (hooks / name).chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[init]\n\ttemplateDir = {home}/template\n[core]\n\thooksPath = {hooks}\n\tfsmonitor = touch {stage.victim}\n"
        f'[credential]\n\thelper = "!touch {stage.victim}"\n[url "file:///"]\n\tinsteadOf = {stage.url}/\n'
    )
    for variable in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(home))
    for variable, value in {
        "GIT_TEMPLATE_DIR": f"{home}/template",
        "GIT_CONFIG_GLOBAL": f"{home}/.gitconfig",
    }.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("GIT_ASKPASS", str(hooks / name))
    site = stage.repository()
    site.commit([(FILE, "index", site.blob("x"))])
    assert not (await stage.mounted() / ".git/hooks").exists()


@pytest.mark.parametrize("url", ["--upload-pack=touch VICTIM;", "ext::sh -c touch% VICTIM", "file://ROOT/served/site",
     "ROOT/served/site", "-cprotocol.ext.allow=always", "ssh://-oProxyCommand=touch VICTIM/x"])  # fmt: skip
async def test_a_url_that_would_run_a_program_or_read_the_node_starts_no_git(stage: Stage, url: str):
    stage.repository()
    with pytest.raises(InvalidSpec):
        await stage.mounted(url.replace("VICTIM", str(stage.victim)).replace("ROOT", str(stage.root)))
    assert not stage.path.exists()


@pytest.mark.parametrize("revision", ["--upload-pack=touch VICTIM", "-f", "--config=core.hooksPath=x"])
async def test_a_revision_that_is_an_option_starts_no_git(stage: Stage, revision: str):
    with pytest.raises(InvalidSpec):
        await stage.mounted(revision=revision.replace("VICTIM", str(stage.victim)))


@pytest.fixture
def answering(host: NodeVolumeHost, tmp_path: Path) -> Iterator[tuple[Stage, list[Handler]]]:
    """A server that answers as its `answer` says; requests that came."""
    came: list[Handler] = []
    (tmp_path / "served").mkdir()

    def answer(handler: Handler) -> bool:
        came.append(handler)
        return stage.answer(handler)

    with serving(tmp_path / "served", answer) as url:
        stage = Stage(host, tmp_path, url)
        yield stage, came
        assert not stage.harmed()
        assert stage.left() == []


@pytest.mark.parametrize(
    "to", ["http://127.0.0.1:1/secret", "file:///etc/passwd", "ext::sh -c id", "gopher://127.0.0.1:1/x"]
)
async def test_a_redirect_is_not_followed(answering: tuple[Stage, list[Handler]], to: str):
    stage, came = answering

    def redirect(handler: Handler) -> bool:
        handler.reply(302, {"Location": to}, b"")
        return True

    stage.answer = redirect
    with pytest.raises(VolumeError, match="302"):
        await stage.mounted()
    assert len(came) == 1


async def test_a_server_that_wants_a_password_gets_none_and_keeps_nobody(
    answering: tuple[Stage, list[Handler]],
):
    stage, came = answering

    def ask(handler: Handler) -> bool:
        handler.reply(401, {"WWW-Authenticate": 'Basic realm="x"'}, b"")
        return True

    stage.answer = ask
    with pytest.raises(VolumeError, match="could not read Username"):
        await stage.mounted()
    assert not any("Authorization" in each.headers for each in came)


async def test_a_server_that_does_not_answer_is_given_up_and_git_ends(answering: tuple[Stage, list[Handler]]):
    stage, came = answering
    held = threading.Event()

    def hang(handler: Handler) -> bool:
        held.wait(60)
        return True

    stage.answer = hang
    stage.started(timeoutSeconds="1")
    try:
        with pytest.raises(OutcomeUnknown, match="within 1 s"):
            await stage.mounted()
        assert came
        assert not stage.processes()
    finally:
        held.set()


async def test_git_ends_in_time_also_when_its_agent_was_killed(answering: tuple[Stage, list[Handler]]):
    stage, came = answering
    held = threading.Event()

    def hang(handler: Handler) -> bool:
        held.wait(60)
        return True

    stage.answer = hang
    workshop = stage.root / "workshop"
    workshop.mkdir()
    argv = words(workshop, Limits(1, Size(1 << 20, 10)), os.geteuid() == 0, "ls-remote", f"{stage.url}/site")
    agent = await blocking(_started, ["sh", "-c", '"$@" & wait', "agent", *argv])
    try:
        await until(lambda: came)
        agent.kill()
        await blocking(agent.wait)
        await until(lambda: not stage.processes(), seconds=20)
    finally:
        held.set()


async def test_an_empty_repository_makes_no_volume(stage: Stage):
    stage.repository()
    with pytest.raises(VolumeError, match="check out"):
        await stage.mounted()


async def test_what_a_server_says_does_not_reach_a_terminal_as_it_is(answering: tuple[Stage, list[Handler]]):
    stage, _ = answering

    def shout(handler: Handler) -> bool:
        error = "ERR \x1b[2J\x07evil"
        body = f"001e# service=git-upload-pack\n0000{len(error) + 4:04x}{error}".encode()
        handler.reply(200, {"Content-Type": "application/x-git-upload-pack-advertisement"}, body)
        return True

    stage.answer = shout
    with pytest.raises(VolumeError, match="evil") as refused:
        await stage.mounted()
    assert str(refused.value).isprintable()


async def test_a_repository_of_too_many_bytes_is_given_up(stage: Stage):
    site = stage.repository()
    site.commit([(FILE, "big", site.blob(os.urandom(3 << 20)))])
    stage.started(maxMiB="2")
    with pytest.raises(VolumeError):
        await stage.mounted()
    assert list(stage.path.iterdir()) == []


async def test_a_small_repository_that_becomes_large_is_given_up(stage: Stage):
    site = stage.repository()
    blob = site.blob(bytes(8 << 20))
    site.commit([(FILE, f"f{number}", blob) for number in range(200)])
    assert sum(each.stat().st_size for each in site.path.rglob("*")) < 1 << 20
    stage.started(maxMiB="32")
    with pytest.raises(VolumeError, match="larger than 32 MiB"):
        await stage.mounted()


async def test_a_repository_of_endless_directories_is_given_up(stage: Stage):
    site = stage.repository()
    entry = (FILE, "f", site.blob("x"))
    for _ in range(9):
        tree = site.tree([(entry[0], f"d{number}", entry[2]) for number in range(10)])
        entry = (TREE, "d", tree)
    site.commit([entry])
    stage.started(maxFiles="2000", timeoutSeconds="4")
    with pytest.raises(VolumeError):
        await stage.mounted()
    assert not stage.processes()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
async def test_git_runs_as_a_user_that_owns_nothing_and_can_become_no_other(
    answering: tuple[Stage, list[Handler]],
):
    stage, _ = answering
    seen: list[str] = []

    def look(handler: Handler) -> bool:
        seen.extend(Path(f"/proc/{pid}/status").read_text() for pid in stage.processes())
        handler.reply(404, {}, b"")
        return True

    stage.answer = look
    with pytest.raises(VolumeError, match="not found"):
        await stage.mounted()
    assert seen
    for status in seen:
        lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert set(lines["Uid"].split()) == set(lines["Gid"].split()) == {str(OWNER)}
        assert lines["Groups"].strip() == ""
        assert lines["NoNewPrivs"] == "1"
        assert {int(lines[each], 16) for each in ("CapInh", "CapPrm", "CapEff", "CapBnd")} == {0}


async def test_clones_of_many_pods_take_turns(stage: Stage):
    site = stage.repository()
    site.commit([(FILE, "index", site.blob("x"))])
    source = GitRepoVolumeSource(f"{stage.url}/site", "", ".")
    spec = VolumeSpec.of_volume(Volume(name="code", git_repo=source))
    pods = [Pod(metadata=ObjectMeta(name=f"p{n}", namespace="shop", uid=f"uid-{n}")) for n in range(5)]
    mounters = [stage.plugin.new_mounter(spec, pod) for pod in pods]
    await asyncio.gather(*(each.set_up() for each in mounters))
    assert all((Path(each.get_path()) / "index").exists() for each in mounters)


def _started(argv: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, stderr=subprocess.DEVNULL)
