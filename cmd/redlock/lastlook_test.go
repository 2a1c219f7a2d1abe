package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

func TestDoctorReportsClocksThatWereSetSinceItsLastLook(t *testing.T) {
	for name, c := range map[string]struct {
		gains []float64 // of the nodes' clocks on this machine's, in milliseconds
		want  []string
		what  string
	}{
		"none was set":     {[]float64{20, -30, 0}, nil, ""},
		"one, forward":     {[]float64{0, 3_600_000, 0}, []string{"warning clock-stepped"}, "its clock was set forward by 1h0m0s since doctor's last look, 10m0s ago"},
		"one, back":        {[]float64{0, -5_000, 0}, []string{"warning clock-stepped"}, "its clock was set back by 5s since doctor's last look, 10m0s ago"},
		"this machine's":   {[]float64{-5_000, -5_000, -5_000}, []string{"note own-clock-stepped"}, "this machine's clock was set forward by 5s"},
		"one is not known": {[]float64{0, 5_000}, []string{"warning clock-stepped"}, "set forward by 5s"},
	} {
		x := healthy(3)
		now := time.Now()
		last := &lastLook{now.Add(-10 * time.Minute), map[string]float64{}}
		for i, gain := range c.gains {
			x.Nodes[i].Clock.Offset = 100
			last.Offsets[x.Nodes[i].Node] = 100 - gain
		}
		x.judgeSteps(last, now)
		require.Equal(t, c.want, x.codes(), name)
		if c.want != nil {
			assert.Contains(t, x.Findings[0].What, c.what, name)
		}
	}
	x := healthy(3)
	x.judgeSteps(nil, time.Now())
	assert.Empty(t, x.Findings, "the first look")
}

func TestDoctorKeepsItsLastLook(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	file := filepath.Join(t.TempDir(), "clocks")
	doctor := func() result { return call(nodes, "doctor", "--for", "0s", "--last", file) }
	assert.NotContains(t, doctor().out, "stepped")
	assert.NotContains(t, doctor().out, "last look")
	last, err := readLastLook(file)
	require.NoError(t, err)
	require.Len(t, last.Offsets, 3)
	for node := range last.Offsets {
		last.Offsets[node] -= 60_000
		break
	}
	require.NoError(t, last.write(file))
	assert.Regexp(t, `WARNING  node \d \(.*\): its clock was set forward by 1m0s since doctor's last look`, doctor().out)
	assert.NotContains(t, doctor().out, "last look", "it was told once")

	nodes.Stop(1)
	doctor()
	last, err = readLastLook(file)
	require.NoError(t, err)
	require.Len(t, last.Offsets, 3, "a node that does not answer keeps what is known of it")

	require.NoError(t, os.WriteFile(file, []byte("no look"), 0o600))
	r := doctor()
	assert.Equal(t, codeDanger, r.code)
	assert.Contains(t, r.log, "is no file that doctor has written; remove it, or name another one")
}
