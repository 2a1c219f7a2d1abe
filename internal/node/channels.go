package node

import (
	"maps"
	"slices"
	"sync"
)

// Channels are what all subscriptions of a client subscribe to, beside the channel of its wake-ups.
type Channels struct {
	mu            sync.Mutex // protects what follows and each channelChanges; innermost
	all           map[string]bool
	subscriptions map[*channelChanges]bool
}

// channelChanges are what one subscription has yet to send.
type channelChanges struct {
	pending map[string]bool // by channel: whether to subscribe to it, or no more
	signal  chan struct{}   // holds one signal while there are some
}

// NewChannels returns Channels without any.
func NewChannels() *Channels {
	return &Channels{all: make(map[string]bool), subscriptions: make(map[*channelChanges]bool)}
}

// Set adds a channel, or takes it out.
func (c *Channels) Set(channel string, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[channel] == on {
		return
	}
	if on {
		c.all[channel] = true
	} else {
		delete(c.all, channel)
	}
	for s := range c.subscriptions {
		s.pending[channel] = on
		select {
		case s.signal <- struct{}{}:
		default: // the last one is not seen yet
		}
	}
}

// open begins a subscription, to all channels that there are. leave ends it.
func (c *Channels) open() (s *channelChanges, leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s = &channelChanges{pending: maps.Clone(c.all), signal: make(chan struct{}, 1)}
	c.subscriptions[s] = true
	return s, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subscriptions, s)
	}
}

// mostChannels is how many one command names: a server serves nobody else meanwhile.
const mostChannels = 256

// take returns the commands for what a subscription has yet to send, in an order that depends on the channels alone.
func (c *Channels) take(s *channelChanges) (commands []Command) {
	c.mu.Lock()
	pending := s.pending
	s.pending = make(map[string]bool)
	c.mu.Unlock()
	for _, channel := range slices.Sorted(maps.Keys(pending)) {
		name := "UNSUBSCRIBE"
		if pending[channel] {
			name = "SUBSCRIBE"
		}
		last := len(commands) - 1
		if last < 0 || commands[last].Name != name || len(commands[last].Args) == mostChannels {
			commands, last = append(commands, Command{Name: name}), last+1
		}
		commands[last].Args = append(commands[last].Args, channel)
	}
	return commands
}
