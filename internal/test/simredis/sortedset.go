package simredis

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// member is one member of a sorted set. Members are in the order of their scores, then of
// their names' bytes.
type member struct {
	score int64
	name  string
}

func (m member) compare(other member) int {
	return cmp.Or(cmp.Compare(m.score, other.score), cmp.Compare(m.name, other.name))
}

// sortedSetCommand executes one of the commands for sorted sets; their scores are integers.
func (s store) sortedSetCommand(command, key string, rest []string, now int64) any {
	e := s.get(key, now)
	if e != nil && e.members == nil {
		return errWrongType
	}
	if command == "ZADD" && strings.EqualFold(rest[0], "XX") {
		return int64(0) // the scripts name no member that is there
	}
	if command == "ZADD" {
		score, err := strconv.ParseInt(rest[0], 10, 64)
		if err != nil {
			return redis.Error("ERR value is not a valid float")
		}
		return s.obtain(key, now).add(member{score, rest[1]})
	}
	if e == nil {
		e = &entry{}
	}
	switch command {
	case "ZREM", "ZREMRANGEBYSCORE":
		n := e.remove(command, rest)
		if len(e.members) == 0 {
			delete(s, key)
		}
		return n
	case "ZRANK":
		if i := e.rank(rest[0]); i >= 0 {
			return int64(i)
		}
		return nil
	case "ZCARD":
		return int64(len(e.members))
	case "ZSCORE":
		if i := e.rank(rest[0]); i >= 0 {
			return scoreText(e.members[i].score)
		}
		return nil
	}
	from, wrongFrom := strconv.Atoi(rest[0])
	to, wrongTo := strconv.Atoi(rest[1])
	withScores := len(rest) > 2
	if wrongFrom != nil || wrongTo != nil || len(rest) > 3 || withScores && rest[2] != "WITHSCORES" {
		return redis.Error("ERR the simulation knows ranges of ranks alone")
	}
	all := []any{}
	for _, m := range e.span(from, to) {
		all = append(all, []byte(m.name))
		if withScores {
			all = append(all, scoreText(m.score))
		}
	}
	return all
}

func scoreText(score int64) []byte { return strconv.AppendInt(nil, score, 10) }

// add puts a member into a sorted set, or changes its score, and returns 1 if it is new.
func (e *entry) add(m member) (added int64) {
	old := e.rank(m.name)
	if old >= 0 {
		e.members = slices.Delete(e.members, old, old+1)
	} else {
		added = 1
	}
	e.scored = e.scored || m.score != 0
	i, _ := slices.BinarySearchFunc(e.members, m, member.compare)
	e.members = slices.Insert(e.members, i, m)
	return added
}

// rank returns a member's index; -1 if it is not there.
func (e *entry) rank(name string) int {
	if e.scored {
		return slices.IndexFunc(e.members, func(m member) bool { return m.name == name })
	}
	if i, found := slices.BinarySearchFunc(e.members, member{0, name}, member.compare); found {
		return i
	}
	return -1
}

// remove takes members out: the one that ZREM names, or those with a score in the range of
// ZREMRANGEBYSCORE, which begins with -inf. It returns how many were there.
func (e *entry) remove(command string, rest []string) int64 {
	before := len(e.members)
	if command == "ZREM" {
		if i := e.rank(rest[0]); i >= 0 {
			e.members = slices.Delete(e.members, i, i+1)
		}
		return int64(before - len(e.members))
	}
	most, _ := strconv.ParseInt(rest[1], 10, 64)
	e.members = slices.DeleteFunc(e.members, func(m member) bool { return m.score <= most })
	return int64(before - len(e.members))
}

// span returns the members from one rank to another, as ZRANGE counts them.
func (e *entry) span(from, to int) []member {
	n := len(e.members)
	if from < 0 {
		from = max(from+n, 0)
	}
	if to < 0 {
		to += n
	}
	to = min(to, n-1)
	if from > to {
		return nil
	}
	return e.members[from : to+1]
}
