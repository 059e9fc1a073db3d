"""Checking tokens: who their holder is, and whether they are valid now.

A check is a lookup in memory and one comparison in constant time; an unknown token takes as long as a known one.
Whoever presents a token shows its secret, from which the key of the MAC over its rights is derived: a token whose
stored rights are not those that it was issued with is refused.

Administrators of a hub's home project administer its other projects, too: a verifier that has a `parent` accepts the
parent's admin tokens.

What a token has issued after its revocation is void, and so is what a void token has issued. A change of tokens looks
its author up in the store. A revocation that could not be stored at once, and one by another process of this machine,
may still come after tokens that its holder issued meanwhile; these are found by their author and their time.

Checks are made by any thread: the dictionary of grants is replaced as a whole and never changed in place, and stopped
tokens are only added.
"""

import hmac
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

import msgspec

from tocsin.core.errors import TocsinError, refusal
from tocsin.hub.auth.store import ReadableGrants, damaged_token, must_be_live
from tocsin.hub.auth.tokens import Grant, Secret, hash_of, parse_token, rights_mac, with_mac
from tocsin.journal.errors import JournalError

__all__ = ["FollowingAuthority", "TokenVerifier"]

_log = logging.getLogger("tocsin.auth")
_NOBODY = bytes(32)


class TokenVerifier:
    """Checks the tokens of one project."""

    def __init__(
        self,
        grants: ReadableGrants,
        project: str,
        clock: Callable[[], int],
        *,
        parent: "TokenVerifier | None" = None,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        """Read the tokens; while `is_current` is false others may have changed them, and none is accepted."""
        self._is_current = is_current
        self._stored = grants
        self._parent = parent
        self._clock = clock
        self._grants = {grant.token_id: grant for grant in grants.load()}
        #: Time at which each token was stopped, by id, durable or not.
        self._stopped: dict[str, int] = {}
        #: Number of changes so far.
        self._changes = 0
        #: Tokens that are not void after so many changes.
        self._sound: tuple[int, set[str]] = (0, set())
        self.project = project
        #: Called with the grant of a token of an earlier version that was presented, with its MAC.
        self.presented: Callable[[Grant], None] = lambda grant: None

    def authenticate(self, token: str) -> Grant:
        """Return the grant of a token, or refuse the token."""
        if not self._is_current():
            raise _unchecked("the database could not be reached for the lease of the project")
        secret = parse_token(token)
        known = None if secret is None else self._grants.get(secret.token_id)
        if secret is not None and secret.token_id in self._stored.damaged:
            raise damaged_token(secret.token_id)
        if known is None and self._parent is not None:
            return self._as_own(self._parent.authenticate(token))
        fits = hmac.compare_digest(
            hash_of("" if secret is None else secret.secret), _NOBODY if known is None else known.digest
        )
        if secret is None or known is None or not fits or known.project != self.project:
            raise _invalid()
        self._check_mac(known, secret)
        self.check(known)
        return known

    def check(self, grant: Grant) -> None:
        """Refuse a grant that has been revoked, has expired or has become void since it was returned."""
        known = self._grants.get(grant.token_id)
        if known is None and self._parent is not None:
            self._parent.check(grant)
            return
        if known is None or grant.token_id in self._stopped:
            raise refusal("E_AUTH_005", f"token {grant.token_id} has been revoked")
        must_be_live(known, self._clock())
        if self._is_void(known):
            detail = f"token {grant.token_id} was issued by token {known.issued_by} after that had been revoked"
            raise refusal("E_AUTH_005", detail)

    def find(self, token_id: str) -> Grant | None:
        """Return the grant with a token id, also an expired or revoked one."""
        grant = self._grants.get(token_id)
        if grant is None and self._parent is not None:
            grant = self._parent.find(token_id)
            return None if grant is None or not grant.admin else msgspec.structs.replace(grant, project=self.project)
        return grant

    @property
    def changes(self) -> int:
        """Return the number of changes so far, by which a verdict on a token can be remembered."""
        return self._changes + (0 if self._parent is None else self._parent.changes)

    def has(self, grant: Grant) -> bool:
        """Tell whether a grant is one of this project's own, and not one of its parent."""
        return grant.token_id in self._grants

    def grants(self) -> list[Grant]:
        """List all grants, oldest first; a stopped one is listed as revoked."""
        return [self._as_checked(grant) for grant in self._grants.values()]

    def has_admin(self) -> bool:
        """Tell whether a valid token can administer tokens."""
        now = self._clock()
        return any(grant.admin and grant.is_live(now) for grant in self.grants())

    def close(self) -> None:
        """Close the store."""
        self._stored.close()

    def _as_checked(self, grant: Grant) -> Grant:
        """Return a grant with its revocation, if it has been stopped; a void one was revoked from the beginning."""
        if grant.revoked_at is not None:
            return grant
        revoked_at = self._stopped.get(grant.token_id)
        if revoked_at is None and self._is_void(grant):
            revoked_at = grant.created_at
        return grant if revoked_at is None else msgspec.structs.replace(grant, revoked_at=revoked_at)

    def _as_own(self, grant: Grant) -> Grant:
        """Return an admin token of the parent as one of this project; refuse others."""
        if not grant.admin:
            raise _invalid()
        return msgspec.structs.replace(grant, project=self.project)

    def _check_mac(self, known: Grant, secret: Secret) -> None:
        """Refuse a token that is not stored with the rights that it was issued with."""
        if known.mac is None:
            self.presented(with_mac(known, secret))
        elif not hmac.compare_digest(known.mac, rights_mac(secret.secret, known)):
            _log.error("token %s is refused: its rights are not those that it was issued with", known.token_id)
            raise damaged_token(known.token_id)

    def _revoked_at(self, grant: Grant) -> int | None:
        """Return when a token was revoked, durable or not."""
        if self._parent is not None and not self.has(grant):
            return self._parent._revoked_at(grant)
        return self._stopped.get(grant.token_id, grant.revoked_at)

    def _is_void(self, grant: Grant) -> bool:
        """Tell whether a token, or one that it was issued by, was issued by a token that had been revoked."""
        if grant.issued_by is None:
            return False
        changes = self.changes
        if self._sound[0] != changes:
            self._sound = (changes, set())
        _, sound = self._sound
        passed: list[str] = []
        issued: Grant | None = grant
        while issued is not None and issued.token_id not in sound:
            passed.append(issued.token_id)
            author = None if issued.issued_by is None else self.find(issued.issued_by)
            if author is not None:
                ended_at = self._revoked_at(author)
                if ended_at is not None and issued.created_at > ended_at:
                    return True
            issued = author
        sound.update(passed)
        return False


class FollowingAuthority(TokenVerifier):
    """Checks the tokens of a project that another process owns, as they were last read.

    All are refused for now once they were read too long ago to rely on.
    """

    def __init__(self, grants: ReadableGrants, project: str, clock: Callable[[], int]) -> None:
        super().__init__(grants, project, clock)
        self._reading = threading.Lock()

    def authenticate(self, token: str) -> Grant:
        """Return the grant of a token, or refuse the token."""
        self._must_follow()
        return super().authenticate(token)

    def check(self, grant: Grant) -> None:
        """Refuse a grant that has been revoked, has expired or has become void since it was returned."""
        self._must_follow()
        super().check(grant)

    def find(self, token_id: str) -> Grant | None:
        """Return the grant with a token id, also an expired or revoked one."""
        with suppress(JournalError):
            self._follow()
        return super().find(token_id)

    @property
    def changes(self) -> int:
        """Return the number of changes so far, by which a verdict on a token can be remembered."""
        with suppress(JournalError):
            self._follow()
        return super().changes

    def _must_follow(self) -> None:
        try:
            self._follow()
        except JournalError as error:
            raise _unchecked(str(error)) from None

    def _follow(self) -> None:
        # The thread that changes the tokens of another project looks up their author here, too.
        with self._reading:
            if self._stored.changed():
                self._grants = {grant.token_id: grant for grant in self._stored.load()}
                self._changes += 1


def _unchecked(reason: str) -> TocsinError:
    return refusal("E_HUB_007", f"tokens cannot be checked: {reason}", retry_after_s=1.0)


def _invalid() -> TocsinError:
    return refusal("E_AUTH_001", "this token is not valid here", expected="a token of this project")
