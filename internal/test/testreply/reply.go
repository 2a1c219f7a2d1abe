package testreply

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// maxGrown is how many replies Grow returns at most.
const maxGrown = 16

// Samples returns replies of every kind that the scripts and commands give, and some that
// they never give.
func Samples() []any {
	return []any{
		nil, int64(0), int64(1), int64(2), int64(3), int64(4), int64(5), int64(11), int64(12), int64(-1), int64(math.MaxInt64), int64(math.MinInt64), "PONG", []byte("owner"), []byte("looked"),
		[]any{}, []any{nil}, []any{[]byte("owner"), int64(1500)}, []any{[]byte("owner"), int64(-1), int64(7), []byte("ncd1250")},
		[]any{[]byte("owner"), int64(9), int64(7), []byte("dx")}, []any{[]byte(""), int64(-1), int64(7)},
		[]any{[]byte("owner"), int64(math.MaxInt64)}, redis.Error("OOM command not allowed"), redis.Error(""), redis.Error("NOSCRIPT"),
		whole([]byte("redlock::record:run:name"), 10000), whole(nil, -1),
		barred(5000, 10000), barred(0, math.MaxInt64), barred(1, 10000),
		[]any{[]byte("format"), []byte("3")}, []any{[]byte("message")},
		[]any{[]byte("subscribe"), []byte("channel"), int64(1)}, []any{[]byte("message"), []byte("channel"), []byte("ready ticket key")},
		[]any{[]byte("message"), nil, []byte("look ticket")}, []any{[]byte("message"), []byte("c"), redis.Error("ready")},
		[]any{[]byte("owner"), int64(5), []byte("42"), []any{[]byte("0001-id-1"), []byte("label"), []byte("odd")}},
		[]any{[]byte("1700000000"), []byte("999999")}, []any{[]byte("1"), []byte("2"), []byte("3")},
	}
}

// whole is probe's answer of a server that has a record.
func whole(record any, longest int64) []any {
	return []any{[]byte("whole"), int64(9), []byte("list"), []byte("a b c"), []byte("a"), record, []byte("1"), longest}
}

// barred is probe's answer of a server in quarantine.
func barred(left, guard int64) []any {
	return []any{[]byte("barred"), int64(9), []byte(""), []byte(""), []byte(""), []byte("name"), left, guard, []byte("name")}
}

// Fuzz runs a fuzz test that reads replies. It calls test with one reply or more. The seeds are
// each of the Samples alone, and each of more.
func Fuzz(f *testing.F, test func(t *testing.T, replies []any), more ...[]any) {
	for _, reply := range Samples() {
		f.Add(Plant(reply))
	}
	for _, replies := range more {
		f.Add(Plant(replies...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if replies := Grow(data); len(replies) > 0 {
			test(t, replies)
		}
	})
}

// Plant returns bytes from which Grow makes these replies.
func Plant(replies ...any) (data []byte) {
	for _, reply := range replies {
		data = plant(data, reply)
	}
	return data
}

// plant appends the bytes of one reply.
func plant(to []byte, reply any) []byte {
	text := func(kind byte, s string) []byte {
		return append(binary.BigEndian.AppendUint16(append(to, kind), uint16(len(s))), s...)
	}
	switch reply := reply.(type) {
	case int64:
		return binary.BigEndian.AppendUint64(append(to, 1), uint64(reply))
	case string:
		return text(2, reply)
	case []byte:
		return text(3, string(reply))
	case redis.Error:
		return text(4, string(reply))
	case []any:
		to = append(to, 5, byte(len(reply)))
		for _, part := range reply {
			to = plant(to, part)
		}
		return to
	}
	return append(to, 0)
}

// Grow returns the replies that bytes encode. Any bytes encode some.
func Grow(data []byte) (replies []any) {
	for len(data) > 0 && len(replies) < maxGrown {
		replies = append(replies, grow(&data, 0))
	}
	return replies
}

// grow decodes one reply, and removes its bytes from data.
func grow(data *[]byte, depth int) any {
	take := func(n int) []byte {
		n = min(n, len(*data))
		part := (*data)[:n]
		*data = (*data)[n:]
		return part
	}
	number := func(n int) (value uint64) {
		for _, b := range take(n) {
			value = value<<8 | uint64(b)
		}
		return value
	}
	switch kind := number(1); kind % 6 {
	case 1:
		return int64(number(8))
	case 2:
		return string(take(int(number(2))))
	case 3:
		return append([]byte{}, take(int(number(2)))...)
	case 4:
		return redis.Error(take(int(number(2))))
	case 5:
		parts := make([]any, number(1)%16)
		for i := range parts {
			if depth < 4 {
				parts[i] = grow(data, depth+1)
			}
		}
		return parts
	}
	return nil
}

// Values returns the parts of a reply that is an array; none of any other reply.
func Values(reply any) []any {
	values, _ := reply.([]any)
	return values
}
