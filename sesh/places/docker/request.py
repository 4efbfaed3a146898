"""The request for a container, as `start` takes it from options and templates."""

from __future__ import annotations

from sesh.model.configuration import Config
from sesh.model.errors import UsageError
from sesh.model.place import ContainerRequest
from sesh.system import container_engine


def requested(
    image: str | None,
    container: str | None,
    no_mount: bool,
    mounts: tuple[str, ...],
    options: tuple[str, ...],
    user: str | None,
    **limits: str | None,
) -> ContainerRequest | None:
    """The container that was asked for, if any."""
    for_new = no_mount or mounts or options or any(value is not None for value in limits.values())
    if image is not None and container is not None:
        raise UsageError("give --image or --container, but not both")
    if "" in (image, container):
        raise UsageError("the name of the image or container is empty")
    if container is not None:
        if for_new:
            raise UsageError("mounts, limits and engine options are for a new container (--image)")
        return ContainerRequest(existing=container, mount=False, user=user)
    if image is None:
        if for_new or user is not None:
            raise UsageError("these options are for a container; give --image too")
        return None
    return ContainerRequest(
        image=image, mount=not no_mount, mounts=mounts, options=options, user=user, **limits
    )


def pull(request: ContainerRequest, config: Config) -> None:
    """Download the image of a new container."""
    if request.image is None:
        return
    engine, timeout = container_engine.chosen(config), container_engine.PULL_TIMEOUT
    said = container_engine.ask(engine, "pull", request.image, timeout=timeout)
    if not said.ok:
        raise container_engine.problem(engine, said)
