"""What a gitRepo source means, and that nothing else is taken for one."""

from __future__ import annotations

import pytest

from mooring.kube.objects import GitRepoVolumeSource, Volume
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.plugins.gitrepo.source import checkout
from mooring.volumes.spec import VolumeSpec

URL = "https://git.example.com/a/site.git"


def spec(repository: str = URL, revision: str = "", directory: str = "") -> VolumeSpec:
    return VolumeSpec.of_volume(
        Volume(name="v", git_repo=GitRepoVolumeSource(repository, revision, directory))
    )


@pytest.mark.parametrize(
    ("url", "host"),
    [
        (URL, "git.example.com"),
        ("http://10.0.0.1:3000/a", "10.0.0.1"),
        ("https://[fd00::1]:8443/a.git", "[fd00::1]"),
        ("https://Git.Example.com/~user/a%20b", "git.example.com"),
    ],
)
def test_a_repository_is_a_url_of_http(url: str, host: str):
    found = checkout(spec(url, directory="x"))
    assert (found.repository, found.host) == (url, host)


@pytest.mark.parametrize(
    "url",
    ["", "--upload-pack=touch /x", "-u", "ext::sh -c id", "file:///etc", "/etc", "./x", "git@github.com:a/b",
     "ssh://-oProxyCommand=id/x", "git://h/x", "https://", "https://h", "https://h/", "https:///x", "HTTPS::https://h/x",
     "https://-h/x", "https://h/x y", "https://h/x\n", "https://h/%0ahost=evil", "https://h/x?y", "https://h/x#y",
     "https://h/\u202ex", "https://h\\@e/x", "https://h/" + "a" * 2100, "http://[::1%25lo]/x", "fd::17/x",
     "https://h:99999999/x"],
)  # fmt: skip
def test_any_other_repository_is_refused(url: str):
    with pytest.raises(InvalidSpec, match="repository"):
        checkout(spec(url, directory="x"))


def test_a_password_is_refused_and_not_repeated():
    with pytest.raises(InvalidSpec, match="init container") as refused:
        checkout(spec("https://user:s3cret@h/x"))
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "revision", ["main", "v1.0", "feature/x", "0123456789abcdef0123456789abcdef01234567", "a@b"]
)
def test_a_revision_is_a_branch_a_tag_or_a_commit(revision: str):
    assert checkout(spec(revision=revision)).revision == revision


@pytest.mark.parametrize(
    "revision",
    [
        "-f",
        "--upload-pack=x",
        "a b",
        "a\n",
        "a..b",
        "HEAD^",
        "HEAD~1",
        "a:b",
        "@{u}",
        "/x",
        "a" * 256,
        "\xe9",
    ],
)
def test_any_other_revision_is_refused(revision: str):
    with pytest.raises(InvalidSpec, match="revision"):
        checkout(spec(revision=revision))


@pytest.mark.parametrize(
    ("text", "found"), [("", "site"), (".", "."), ("www", "www"), ("a/b-c", "a/b-c"), ("gitops", "gitops")]
)
def test_a_directory_is_where_in_the_volume_it_is(text: str, found: str):
    assert checkout(spec(directory=text)).directory == found


@pytest.mark.parametrize(
    "text",
    ["..", "../x", "a/../b", "/abs", "-x", "a/-x", ".git", "g/.git", "g/.GIT", "g/.git/hooks", "git~1", "GIT~1/x", ".x",
     "a//b", "a/", "./a", "a\\b", "a\nb", "a\0", "x" * 256, ".g\u200cit", "git", "git.", "a b"],
)  # fmt: skip
def test_any_other_directory_is_refused(text: str):
    with pytest.raises(InvalidSpec, match="directory"):
        checkout(spec(directory=text))


@pytest.mark.parametrize("url", ["https://h/a/..", "https://h/-x", "https://h/%2e%2e", "https://h/git.git"])
def test_a_url_that_names_no_directory_needs_one(url: str):
    with pytest.raises(InvalidSpec, match="add directory"):
        checkout(spec(url))
    assert checkout(spec(url, directory=".")).directory == "."


def test_another_volume_is_none_of_git():
    with pytest.raises(InvalidSpec, match="no gitRepo source"):
        checkout(VolumeSpec.of_volume(Volume(name="v")))
