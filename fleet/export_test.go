package fleet

// Script is the script.
var Script = script

// Check is check, which returns an error if a reply makes no sense.
var Check = check

// RenewIn and FirstToken are the methods of a Fleet's schedule if its Client has none.
var RenewIn, FirstToken = random{}.RenewIn, random{}.FirstToken
