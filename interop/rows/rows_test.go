package rows

// rows are the rows of the table.
var rows = []row{githubRow, openaiRow, anthropicRow, stripeRow, gitlabRow, slackRow}
