package browser

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
	"github.com/redlock-go/redlock/redlockweb"
)

func TestWithoutScriptTheTableIsThere(t *testing.T) {
	findBrowser(t)
	nodes := redlocktest.Start(t, 3)
	hold(t, nodes, "alpha", "web-1")
	hold(t, nodes, "job", "cron-1")
	browser := openBrowser(t)
	run(t, browser, command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	do(t, browser, chromedp.Navigate(serve(t, nodes)))
	require.Equal(t, "alpha|job", eval[string](t, browser, titles("rows")))
	require.Contains(t, eval[string](t, browser, `document.body.innerText`), "reloads every 5 s")
	do(t, browser, chromedp.SendKeys(`input[name=filter]`, "job"), chromedp.Click(`form button`))
	await(t, browser, titles("rows")+` == 'job'`)

	hold(t, nodes, "job-2", "cron-1") // the page reloads itself, with the filter
	await(t, browser, titles("rows")+` == 'job|job-2'`)
}

func TestAPersonUnlocks(t *testing.T) {
	findBrowser(t)
	nodes := redlocktest.Start(t, 3)
	hold(t, nodes, "job", "cron-1")
	browser := openBrowser(t)
	page := serve(t, nodes, redlockweb.WithUnlock()) + "/lock?name=job"
	do(t, browser, chromedp.Navigate(page),
		chromedp.SendKeys(`input[name=typed]`, "jab"), chromedp.Click(`.danger button`))
	await(t, browser, `document.body.innerText.includes('nothing was changed')`)
	do(t, browser, chromedp.Navigate(page), chromedp.SendKeys(`input[name=typed]`, "job"), chromedp.Click(`.danger button`))
	await(t, browser, `document.querySelector('.sentence')?.innerText == 'Unlocked. It was held by cron-1.'`)
	for i := range nodes.URLs() {
		_, is := nodes.Get(i, "redlock:job")
		require.False(t, is)
	}
}

// Whatever the width, nothing is wider than the page, and each control has a name and can be reached by the keyboard.
func TestThePageFitsAPhoneAndAKeyboard(t *testing.T) {
	findBrowser(t)
	nodes := redlocktest.Start(t, 5)
	plant(t, nodes)
	browser := openBrowser(t)
	do(t, browser, chromedp.EmulateViewport(390, 844), chromedp.Navigate(serve(t, nodes)))
	await(t, browser, `document.querySelectorAll('#rows tr').length == 9`)
	require.LessOrEqual(t, eval[int](t, browser, `document.documentElement.scrollWidth`), 390)
	require.True(t, eval[bool](t, browser, `!!document.querySelector('header') && !!document.querySelector('main') && !!document.querySelector('footer')`))
	require.True(t, eval[bool](t, browser, `[...document.querySelectorAll('input, select')].every(c => c.labels.length > 0)`))
	require.True(t, eval[bool](t, browser, `document.querySelector('#sentence').ariaLive == 'polite'`))
	require.True(t, eval[bool](t, browser, `[...document.querySelectorAll('table')].every(t => t.querySelectorAll('th[scope=col]').length > 2)`))
	do(t, browser, chromedp.KeyEvent("/"))
	await(t, browser, `document.activeElement.name == 'filter'`)
	do(t, browser, chromedp.KeyEvent("\t"))
	await(t, browser, `document.activeElement.name == 'sort'`)
	do(t, browser, chromedp.KeyEvent("\t"))
	await(t, browser, `document.activeElement.matches('#rows a') && getComputedStyle(document.activeElement).outlineStyle == 'solid'`)
}
