package rows

// rows are the rows of the table.
var rows = []row{azureRow, storageRow, githubRow, gitlabRow, openaiRow, anthropicRow, stripeRow, slackRow}
