package protocol

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

// EmptyHolder is the holder that is reported of a key with an empty value. No client of this
// library writes one, but others can, and they hold the lock.
const EmptyHolder = "(an empty value)"

// Endless is the remaining time of a key without a ttl.
const Endless time.Duration = -1

// maxValue is how much is read of the value of a lock's key. Scripts return no more either
// (parts/value.lua): the library's own values are shorter, and another program's may have any length.
const maxValue = 512

// mostMilliseconds are the most that a time.Duration has.
const mostMilliseconds = math.MaxInt64 / int64(time.Millisecond)

// HolderOf returns the holder that a key's value names. A lock that rests has the owner of the lease
// that has ended as its holder: nodes that have not executed the release yet name the same one.
func HolderOf(value []byte) (holder string, resting bool) {
	if len(value) == 0 {
		return EmptyHolder, false
	}
	return CutResting(string(value[:min(len(value), maxValue)]))
}

// foundHolder returns the holder that the value of a lock's key names: "" without a key, and
// EmptyHolder for an empty value. Scripts return an empty value also where there is no key;
// what PTTL answered distinguishes the two.
func foundHolder(value string, pttl int64) string {
	const noKey = -2
	if value == "" && pttl != noKey {
		return EmptyHolder
	}
	return value
}

// Remaining returns what PTTL answered: -1 for a key without an end, -2 for none.
func Remaining(pttl int64) time.Duration {
	switch {
	case pttl == -1:
		return Endless
	case pttl < 0:
		return 0
	}
	return time.Duration(min(pttl, mostMilliseconds)) * time.Millisecond
}

// QuorumEnds returns the time until less than a quorum of the nodes has what has these times left; 0 if less than a
// quorum has it now, negative if it never ends. It sorts the times.
func QuorumEnds(left []time.Duration, quorum int) time.Duration {
	if len(left) < quorum {
		return 0
	}
	slices.SortFunc(left, func(a, b time.Duration) int { return cmp.Compare(uint64(a), uint64(b)) }) // negative: last
	return left[len(left)-quorum]
}

// ReadTime reads the answer to TIME: the time since 1970.
func ReadTime(reply any, err error) (time.Duration, error) {
	parts, err := redis.Int64s(reply, err)
	if err == nil && len(parts) != 2 {
		err = fmt.Errorf("it has %d parts, not 2", len(parts))
	}
	if err != nil {
		return 0, err
	}
	return time.Duration(parts[0])*time.Second + time.Duration(parts[1])*time.Microsecond, nil
}
