# Targets for the pipelines of .github/ and .gitlab-ci.yml. People rarely call them. The Makefile includes this file.

# The branch that a merge request is compared with, and the file of its previews.
TARGET ?= origin/main
PREVIEWS := .build/previews.json
export TARGET COMMIT

.PHONY: preview preview-cloud comment-github comment-gitlab google-login drift up

##@ For pipelines

preview: .venv/.ready ## what a merge of this branch into TARGET would change, without a cloud
	@$(BIN)/python -m engine
	@$(BIN)/python -m operations preview-comment --target "$$TARGET" --save $(PREVIEWS)

preview-cloud: .venv/.ready ## the same of the stacks that exist
	@$(BIN)/python -m engine
	@$(BIN)/python -m operations preview-comment --target "$$TARGET" --cloud --save $(PREVIEWS)

comment-github: .venv/.ready ## put what `make preview` saved of commit COMMIT on its pull request
	@$(BIN)/python -m operations preview-comment --saved $(PREVIEWS) --commit "$$COMMIT" --forge github --post

comment-gitlab: .venv/.ready ## put what this pipeline's `make preview` saved on its merge request
	@$(BIN)/python -m operations preview-comment --of-pipeline --commit "$$CI_COMMIT_SHA" --forge gitlab --post

# Does at GitLab what google-github-actions/auth does at GitHub. No key is stored: Google exchanges the job's ID token,
# which expires with the job. gcloud must not read the credentials that it is about to write.
UNSET := is not set; docs/merge-requests.md says where it comes from
google-login: ## in a job of GitLab: Google Cloud with the job's own identity
	@: "$${GOOGLE_ID_TOKEN:?$(UNSET)}" "$${GOOGLE_PROVIDER:?$(UNSET)}" "$${GOOGLE_ACCOUNT:?$(UNSET)}"
	@umask 077; folder=$$(dirname "$${GOOGLE_APPLICATION_CREDENTIALS:?$(UNSET)}"); \
	mkdir -p "$$folder"; rm -f "$$folder/id-token" "$$GOOGLE_APPLICATION_CREDENTIALS"; \
	printf %s "$$GOOGLE_ID_TOKEN" > "$$folder/id-token"; \
	env --unset=CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE gcloud iam workload-identity-pools create-cred-config \
		"$$GOOGLE_PROVIDER" --service-account="$$GOOGLE_ACCOUNT" --credential-source-file="$$folder/id-token" \
		--output-file="$$GOOGLE_APPLICATION_CREDENTIALS"

drift: .venv/.ready ## what has changed in the cloud since the last `up`
	@$(BIN)/python -m engine
	@$(BIN)/python -m operations drift

up: known-stack .venv/.ready ## `pulumi up --refresh` of STACK without questions, for the job that somebody approved
	@$(BIN)/python -m engine
	@$(BIN)/python -m operations check-state --stack "$$STACK"
	@pulumi up --refresh --yes --non-interactive --stack "$$STACK"
