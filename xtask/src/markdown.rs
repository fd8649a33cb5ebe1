//! The fenced blocks of our documents, and what to do with each.

/// What becomes of a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    RunShell,
    RunPython,
    /// Shown to the reader only; the reason is written before it.
    Leave,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line of the opening fence, from 1.
    pub(crate) line: usize,
    pub(crate) action: Action,
    pub(crate) text: String,
}

/// Finds all blocks. An error names the line and what the author should write instead.
pub(crate) fn blocks(document: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut lines = document.lines().enumerate();
    let mut reason_before = false;
    while let Some((index, line)) = lines.next() {
        let Some((indent, fence, info)) = opening_fence(line) else {
            // Blank lines may come between the comment and its block.
            reason_before = is_comment_end(line) || (reason_before && line.trim().is_empty());
            continue;
        };
        let action = action(info, reason_before)
            .map_err(|problem| format!("line {}: {problem}", index + 1))?;
        let body =
            lines.by_ref().map(|(_, line)| line).take_while(|line| !is_closing_fence(line, fence));
        let text = body.map(|line| format!("{}\n", unindent(line, indent))).collect();
        blocks.push(Block { line: index + 1, action, text });
        reason_before = false;
    }
    Ok(blocks)
}

fn is_comment_end(line: &str) -> bool {
    line.trim_end().ends_with("-->")
}

/// The indentation, the fence itself and the info string.
fn opening_fence(line: &str) -> Option<(usize, &str, &str)> {
    let trimmed = line.trim_start();
    let length = trimmed.chars().take_while(|c| *c == '`').count();
    (length >= 3)
        .then(|| (line.len() - trimmed.len(), &trimmed[..length], trimmed[length..].trim()))
}

fn is_closing_fence(line: &str, fence: &str) -> bool {
    let line = line.trim();
    line.len() >= fence.len() && line.chars().all(|c| c == '`')
}

fn unindent(line: &str, indent: usize) -> &str {
    let present = line.len() - line.trim_start().len();
    &line[indent.min(present)..]
}

fn action(info: &str, reason_before: bool) -> Result<Action, String> {
    let mut words = info.split_whitespace();
    let language = words.next().unwrap_or_default();
    let is_left = language == "console" || words.any(|word| word == "no-run");
    match language {
        "" => Err("a block needs a language; use `text` for plain text".into()),
        "bash" | "shell" | "zsh" => {
            Err(format!("write `sh` instead of `{language}`, so that the block is run"))
        }
        "python3" | "py" => {
            Err(format!("write `python` instead of `{language}`, so that the block is run"))
        }
        "sh" | "python" | "console" if is_left && !reason_before => {
            Err(format!("a `{info}` block is not run: say why in an HTML comment before it"))
        }
        "sh" if !is_left => Ok(Action::RunShell),
        "python" if !is_left => Ok(Action::RunPython),
        _ => Ok(Action::Leave),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(document: &str, expected: &[(usize, Action, &str)]) {
        let found = blocks(document).unwrap();
        let found: Vec<_> =
            found.into_iter().map(|block| (block.line, block.action, block.text)).collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(line, action, text)| (*line, action, (*text).to_owned()))
            .collect();
        let found: Vec<_> =
            found.iter().map(|(line, action, text)| (*line, action, text.clone())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn blocks_are_found_with_their_language() {
        let document =
            "# Title\n\n```sh\ncurl x\n```\ntext\n```python\nprint(1)\n```\n```toml\na = 1\n```\n";
        check(
            document,
            &[
                (3, Action::RunShell, "curl x\n"),
                (7, Action::RunPython, "print(1)\n"),
                (10, Action::Leave, "a = 1\n"),
            ],
        );
    }

    #[test]
    fn a_block_in_a_list_loses_its_indentation() {
        check("- item\n\n  ```sh\n  if x\n    y\n  ```\n", &[(3, Action::RunShell, "if x\n  y\n")]);
    }

    #[test]
    fn a_longer_fence_holds_a_shorter_one() {
        check("````text\n```sh\nx\n```\n````\n", &[(1, Action::Leave, "```sh\nx\n```\n")]);
    }

    #[test]
    fn a_block_that_is_not_run_needs_a_reason() {
        check("<!-- it never ends -->\n\n```sh no-run\nx\n```\n", &[(3, Action::Leave, "x\n")]);
        check("<!-- long\n     reason -->\n```console\n$ x\n```\n", &[(3, Action::Leave, "$ x\n")]);
        for document in [
            "```sh no-run\nx\n```\n",
            "```console\n$ x\n```\n",
            "<!-- r -->\nwords\n```sh no-run\n```\n",
        ] {
            assert!(blocks(document).unwrap_err().contains("say why"), "{document}");
        }
    }

    #[test]
    fn other_names_for_the_same_language_are_refused() {
        for document in ["```bash\nx\n```\n", "```\nx\n```\n", "```py\nx\n```\n"] {
            assert!(blocks(document).is_err(), "{document}");
        }
    }
}
