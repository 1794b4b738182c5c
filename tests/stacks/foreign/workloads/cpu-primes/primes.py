"""Prints how many primes are below a number: python primes.py 1000."""

import sys


def count(limit: int) -> int:
    """The number of primes below `limit`, by the sieve of Eratosthenes."""
    is_prime = bytearray([1]) * limit
    is_prime[:2] = b"\0\0"
    for number in range(2, int(limit**0.5) + 1):
        if is_prime[number]:
            multiples = range(number * number, limit, number)
            is_prime[number * number :: number] = bytes(len(multiples))
    return sum(is_prime)


if __name__ == "__main__":
    print(count(int(sys.argv[1])))
