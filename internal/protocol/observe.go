package protocol

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// How clients observe holders: observe.lua, and the channels of holders and observers. The channels begin as
// those of wake-ups do, so a server's user needs no further right. No client's name has their marks.

// NewsChannel returns the channel on which holders of a lock announce that its holder has changed.
func NewsChannel(key string) string { return Key("wake", "="+key) }

// QuestionChannel returns the channel on which observers of a lock ask its holder who it is.
func QuestionChannel(key string) string { return Key("wake", "?"+key) }

// WakeChannel returns the channel over which the nodes wake a client, and holders answer its questions.
func WakeChannel(client string) string { return Key("wake", client) }

// SubjectOf returns the key of the lock that a channel is about, and whether it is the QuestionChannel; "" for a
// channel of wake-ups.
func SubjectOf(channel string) (key string, asks bool) {
	subject, _ := strings.CutPrefix(channel, Key("wake", ""))
	if key, is := strings.CutPrefix(subject, "="); is {
		return key, false
	}
	if key, is := strings.CutPrefix(subject, "?"); is {
		return key, true
	}
	return "", false
}

// Announcement is what a holder says of itself. The zero one says that there may be another holder, or none.
type Announcement struct {
	Owner string
	Token int64 // 0: its lease has none
}

// String returns the text of the message.
func (a Announcement) String() string { return strconv.FormatInt(a.Token, 10) + " " + a.Owner }

// ReadAnnouncement reads the text of a message, which anybody may have sent.
func ReadAnnouncement(text string) (a Announcement) {
	number, owner, _ := strings.Cut(text, " ")
	token, err := strconv.ParseInt(number, 10, 64)
	if err != nil || token < 0 || len(owner) > maxValue || !IsHolder(owner) {
		return Announcement{}
	}
	return Announcement{owner, token}
}

// Sight is what stands at a server for a lock.
type Sight struct {
	Holder    string // an owner, or Shared; "": nobody holds it there, as when it is resting
	Remaining time.Duration
	Count     int64 // of grants
}

// HeldBy returns who holds a lock by the value of its key: an owner, or Shared; "" where nobody does, as when it rests.
func HeldBy(value string) string {
	if owner, resting := CutResting(value); !resting && !IsReservation(owner) {
		return owner
	}
	return ""
}

// ObserveCall asks a server who holds locks. record is the key of the server's record.
func ObserveCall(record any, keys []string) Call {
	args := append(make([]any, 0, 2+2*len(keys)), 1+len(keys), record)
	for _, key := range keys {
		args = append(args, key)
	}
	for _, key := range keys {
		args = append(args, StripeArg(key))
	}
	return Call{Observe, args}
}

// ReadSights reads the answer to an ObserveCall about n locks.
func ReadSights(reply any, err error, n int) ([]Sight, error) {
	parts, err := redis.Values(reply, err)
	if err == nil && len(parts) != 3*n {
		err = fmt.Errorf("unexpected reply to observe: it has %d parts, not %d", len(parts), 3*n)
	}
	if err != nil {
		return nil, err
	}
	all := make([]Sight, n)
	for i := range all {
		var value, count string
		var ms int64
		if _, err := redis.Scan(parts[3*i:3*i+3], &value, &ms, &count); err != nil {
			return nil, fmt.Errorf("unexpected reply to observe: %w", err)
		}
		all[i] = Sight{Holder: HeldBy(foundHolder(value, ms)), Remaining: Remaining(ms)}
		all[i].Count, _ = strconv.ParseInt(count, 10, 64)
	}
	return all, nil
}
