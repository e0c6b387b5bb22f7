package rows

// rows are the rows of the table.
var rows = []row{
	kubeRow, kubeOffRow, azureRow, storageRow, minioRow, minioOffRow, pullRow, pushRow, orasRow, nodesRow, nodeRow,
	vaultRow, tracesRow, metricsRow, githubRow, gitlabRow, openaiRow, anthropicRow, stripeRow, slackRow,
}
