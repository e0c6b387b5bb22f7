// Package traffic makes a scenario of what a program logged: it reads the JSON
// lines of [awsretry.LogAllTo] once, with a memory that does not grow with the
// log, and fits the clients, the service and the present setting to them.
//
// [Read] gathers, [Log.Fit] fits, and [Fitted.Scenario] is for
// [simulate.Run]. What the log cannot show is in [Fitted.Unseen].
package traffic
