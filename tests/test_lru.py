"""The cache that forgets what was used longest ago."""

from __future__ import annotations

from gateway.lru import LruCache


def kept(cache: LruCache[str, int]) -> str:
    return "".join(key for key in "abcde" if key in cache)


def test_what_was_used_longest_ago_goes_first() -> None:
    cache: LruCache[str, int] = LruCache(3)
    for number, key in enumerate("abc"):
        cache.keep(key, number)
    assert cache.get("a") == 0
    cache.keep("d", 4)
    assert kept(cache) == "acd"
    assert "c" in cache, "a look is no use"
    cache.keep("e", 5)
    assert kept(cache) == "ade"


def test_sizes_count_and_a_new_value_takes_the_place_of_the_old_one() -> None:
    cache: LruCache[str, int] = LruCache(10)
    cache.keep("a", 1, 4)
    cache.keep("b", 2, 4)
    cache.keep("a", 3, 6)
    assert (kept(cache), cache.size, cache.get("a")) == ("ab", 10, 3)
    cache.keep("c", 4, 5)
    assert (kept(cache), cache.size) == ("c", 5)


def test_the_last_one_is_kept_however_large_it_is() -> None:
    cache: LruCache[str, int] = LruCache(10)
    cache.keep("a", 1, 4)
    cache.keep("b", 2, 11)
    assert (kept(cache), cache.size) == ("b", 11)
    cache.keep("c", 3, 1)
    assert (kept(cache), cache.size) == ("c", 1)


def test_what_is_dropped_is_given_and_no_longer_counts() -> None:
    cache: LruCache[str, int] = LruCache(10)
    cache.keep("a", 1, 4)
    assert (cache.drop("a"), cache.drop("a"), cache.get("a"), cache.size) == (1, None, None, 0)
