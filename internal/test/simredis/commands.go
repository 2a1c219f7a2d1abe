package simredis

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// status is a simple string reply, such as OK.
type status string

// Replies are int64, []byte, status, []any, nil, or redis.Error.

var errWrongType = redis.Error("WRONGTYPE Operation against a key holding the wrong kind of value")

// data executes the commands that read and change the memory, as far as the scripts and the
// client use them. ok is false for any other command.
func (s *Server) data(args []string) (reply any, ok bool) {
	now := s.now()
	if len(args) == 1 && strings.EqualFold(args[0], "TIME") {
		return s.time(), true
	}
	if len(args) < 2 {
		return nil, false
	}
	key, rest := args[1], args[2:]
	switch command := strings.ToUpper(args[0]); command {
	case "SET":
		return s.store.set(key, rest, now), true
	case "GET":
		if s.store.get(key, now) == nil {
			return nil, true
		}
		return s.store.getRange(key, []string{"0", strconv.Itoa(math.MaxInt32)}, now), true
	case "GETRANGE":
		return s.store.getRange(key, rest, now), true
	case "EXISTS":
		return s.store.existing(args[1:], now), true
	case "DEL":
		var n int64
		for _, k := range args[1:] {
			n += count(s.store.get(k, now) != nil)
			delete(s.store, k)
		}
		return n, true
	case "PTTL":
		return s.store.pttl(key, now), true
	case "PEXPIRE":
		ms, err := strconv.ParseInt(rest[0], 10, 64)
		if err != nil {
			return redis.Error("ERR value is not an integer or out of range"), true
		}
		return s.store.expire(key, now, now+ms), true
	case "PEXPIREAT":
		at, err := strconv.ParseInt(rest[0], 10, 64)
		if err != nil {
			return redis.Error("ERR value is not an integer or out of range"), true
		}
		return s.store.expire(key, now, at), true
	case "PERSIST":
		e := s.store.get(key, now)
		if e == nil || e.expires == 0 {
			return int64(0), true
		}
		e.expires = 0
		return int64(1), true
	case "HSET", "HGET", "HEXISTS", "HGETALL", "HINCRBY":
		return s.store.hashCommand(command, key, rest, now), true
	case "ZCARD", "ZADD", "ZREM", "ZRANK", "ZSCORE", "ZRANGE", "ZREMRANGEBYSCORE":
		return s.store.sortedSetCommand(command, key, rest, now), true
	case "PUBSUB": // NUMSUB of one channel
		return []any{[]byte(rest[0]), int64(len(s.subscribed(rest[0])))}, true
	case "PUBLISH":
		return s.publish(key, rest[0]), true
	}
	return nil, false
}

// existing returns how many of the keys exist; one that is named twice counts twice.
func (s store) existing(keys []string, now int64) (n int64) {
	for _, k := range keys {
		n += count(s.get(k, now) != nil)
	}
	return n
}

func count(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// getRange executes GETRANGE key 0 last.
func (s store) getRange(key string, rest []string, now int64) any {
	e := s.get(key, now)
	switch last, err := strconv.ParseInt(rest[1], 10, 64); {
	case err != nil || rest[0] != "0" || last < 0:
		return redis.Error("ERR value is not an integer or out of range")
	case e == nil:
		return []byte{}
	case e.hash != nil || e.members != nil:
		return errWrongType
	default:
		return e.text[:min(int64(len(e.text)), last+1)]
	}
}

// set executes SET key value [NX] [PX ms] [PXAT ms] [KEEPTTL] [GET].
func (s store) set(key string, rest []string, now int64) any {
	var onlyNew, keep, get bool
	var expires int64
	for i := 1; i < len(rest); i++ {
		switch strings.ToUpper(rest[i]) {
		case "NX":
			onlyNew = true
		case "GET":
			get = true
		case "KEEPTTL":
			keep = true
		case "PX", "PXAT":
			ms, err := strconv.ParseInt(rest[i+1], 10, 64)
			if err != nil || ms <= 0 {
				return redis.Error("ERR invalid expire time in 'set' command")
			}
			expires = ms
			if strings.EqualFold(rest[i], "PX") {
				expires += now
			}
			i++
		default:
			return redis.Error("ERR syntax error")
		}
	}
	old := s.get(key, now)
	if keep && old != nil {
		expires = old.expires
	}
	if old == nil || !onlyNew {
		s[key] = &entry{text: []byte(rest[0]), expires: expires}
	}
	switch {
	case get && old == nil, !get && onlyNew && old != nil:
		return nil
	case get:
		return old.text
	}
	return status("OK")
}

// hashCommand executes one of the commands for hashes.
func (s store) hashCommand(command, key string, rest []string, now int64) any {
	e := s.get(key, now)
	if e != nil && e.hash == nil {
		return errWrongType
	}
	switch {
	case command == "HSET" || command == "HINCRBY":
		e = s.obtain(key, now)
		if e.hash == nil {
			e.hash = make(map[string]string)
		}
	case e == nil:
		e = &entry{}
	}
	switch command {
	case "HGET":
		if v, found := e.hash[rest[0]]; found {
			return []byte(v)
		}
		return nil
	case "HEXISTS":
		_, found := e.hash[rest[0]]
		return count(found)
	case "HGETALL":
		all := []any{}
		for _, field := range slices.Sorted(maps.Keys(e.hash)) {
			all = append(all, []byte(field), []byte(e.hash[field]))
		}
		return all
	case "HINCRBY":
		old, _ := strconv.ParseInt(e.hash[rest[0]], 10, 64)
		by, _ := strconv.ParseInt(rest[1], 10, 64)
		e.hash[rest[0]] = strconv.FormatInt(old+by, 10)
		return old + by
	}
	var added int64
	for i := 0; i+1 < len(rest); i += 2 {
		_, found := e.hash[rest[i]]
		added += count(!found)
		e.hash[rest[i]] = rest[i+1]
	}
	return added
}
