package node

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/loginreply"
	"github.com/redlock-go/redlock/internal/protocol"
)

func TestCodeOfAFailedScriptIsItsCommands(t *testing.T) {
	for text, want := range map[string]string{
		"OOM command not allowed": "OOM",
		"ERR Error running script (call to f_0a): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.": "READONLY",
		"ERR The user executing the script can't run this command or subcommand script: f_0a, on @user_script:1.":                          "NOPERM",
		"ERR ACL failure in script: User locks has no permissions to run the 'time' command script: 0a, on @user_script:19.":               "NOPERM",
		"ERR syntax error": "ERR",
	} {
		require.Equal(t, want, code(redis.Error(text)))
	}
}

func TestAdviceKeepsTheErrorAndNamesTheRemedy(t *testing.T) {
	for err, remedy := range map[error]string{
		redis.Error("NOPERM no"):           "grant the user",
		redis.Error("OOM no"):              "raise maxmemory",
		redis.Error("READONLY no"):         "the master's address",
		redis.Error("WRONGTYPE no"):        "another name or prefix",
		redis.Error("WRONGPASS no"):        "check the user and the password",
		redis.Error("CROSSSLOT no"):        "cluster-enabled no",
		redis.Error("MOVED 3999 ::1:6381"): "cluster-enabled no",
		redis.Error("CLUSTERDOWN no"):      "cluster-enabled no",
		redis.Error("BUSY no"):             "",
		io.EOF:                             "",
		&UnfitError{Reason: "it is a fox"}: "",
	} {
		advised := Advise(fmt.Errorf("cannot connect: %w", err))
		require.ErrorIs(t, advised, err)
		require.ErrorContains(t, advised, "cannot connect: "+err.Error()+map[bool]string{true: " ("}[remedy != ""])
		require.ErrorContains(t, advised, remedy)
		var unfit *UnfitError
		require.Equal(t, errors.As(err, &unfit), errors.As(advised, &unfit))
	}
}

// A reply that may repeat the password is withheld; the wrong password is recognized by what is left of it.
func TestWithheldRepliesStayPermanent(t *testing.T) {
	for reply, permanent := range map[string]bool{
		"WRONGPASS hunter2": true, "NOAUTH hunter2": true, "NOPERM hunter2": true, "DENIED hunter2": true, "ERR invalid password hunter2": true, "ERR AUTH hunter2": true,
		"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?": true,
		"ERR Client sent AUTH, but no password is set": true, "ERR Client sent AUTH hunter2": true, "ERR hunter2": false, "hunter2": false, "LOADING hunter2": false,
	} {
		shown := loginreply.Withhold(reply)
		require.NotContains(t, shown, "hunter2")
		require.Equal(t, permanent, IsPermanent(fmt.Errorf("cannot log in: %w", redis.Error(shown))), shown)
	}
}

func TestAdviceNamesTheCommandThatAScriptMayNotCall(t *testing.T) {
	for _, c := range []struct {
		script *protocol.Script
		line   string // begins with this
		named  string
	}{
		{protocol.Keep, "stood = (tonumber(redis.call('ZSCORE'", "it may not call zscore: grant"},
		{protocol.Read, "local made = redis.call('PEXPIREAT'", "it may not call pexpireat: grant"},
		{protocol.Raise, "if redis.call('GETRANGE', KEYS[i], '0', '511')", "it may not call getrange: grant"},
		{protocol.Inspect, "local clock = redis.call('TIME')", "it may not call time: grant"},
		{protocol.Release, "local reply = redis.pcall('PUBLISH'", "it may not call publish: grant"},
		{protocol.Read, "local shared =", "(grant"},
	} {
		number := 0
		for i, line := range strings.Split(c.script.Text().(string), "\n") {
			if strings.HasPrefix(line, c.line) {
				number = i + 1
			}
		}
		require.NotZero(t, number, c.line)
		for _, form := range []string{
			"ERR The user executing the script can't run this command or subcommand script: %s, on @user_script:%d.",
			"ERR Error running script (call to f_%s): @user_script:%[2]d: @user_script: %[2]d: The user executing the script can't run this command or subcommand",
		} {
			err := redis.Error(fmt.Sprintf(form, c.script.SHA(), number))
			require.ErrorContains(t, Advise(err), c.named)
		}
		keys := redis.Error(fmt.Sprintf("ERR The user executing the script can't access at least one of the keys mentioned in the command arguments "+
			"script: %s, on @user_script:%d.", c.script.SHA(), number))
		require.ErrorContains(t, Advise(keys), " (grant")
	}
	foreign := redis.Error("ERR The user executing the script can't run this command or subcommand script: " + strings.Repeat("0", 40) + ", on @user_script:1.")
	require.ErrorContains(t, Advise(foreign), " (grant")
}
