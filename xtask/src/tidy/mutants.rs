//! The store can be compiled with defects, for tests of the tests. Nothing may turn that on but a
//! command line.

use serde_json::Value;

use super::Finding;

const FEATURE: &str = "mutants";

/// Looks through the features of our crates, and through what they ask of each other.
pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Value) -> Vec<Finding> {
    let name = package["name"].as_str().unwrap_or_default();
    let features = package["features"].as_object().into_iter().flatten();
    let by_feature =
        features.filter(|(feature, turns_on)| *feature != FEATURE && has_mutants(turns_on));
    let mut findings: Vec<Finding> = by_feature
        .map(|(feature, _)| {
            Finding::new(name, format!("its feature {feature} must not turn on {FEATURE}"))
        })
        .collect();
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let by_dependency = dependencies.filter(|dependency| has_mutants(&dependency["features"]));
    findings.extend(by_dependency.map(|dependency| {
        let used = dependency["name"].as_str().unwrap_or_default();
        Finding::new(name, format!("must not ask {used} for {FEATURE}"))
    }));
    findings
}

/// `mutants`, `tavola-embedded/mutants` or `tavola-embedded?/mutants`.
fn has_mutants(list: &Value) -> bool {
    let names = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    names.into_iter().any(|name| name.rsplit('/').next() == Some(FEATURE))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(features: Value, dependency_features: Value) -> Vec<String> {
        let dependencies = json!([{"name": "tavola-embedded", "features": dependency_features}]);
        let package = json!({"name": "tavola", "features": features, "dependencies": dependencies});
        check(&json!({"packages": [package]})).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn passed_on_by_its_own_name_only() {
        assert_eq!(
            problems(json!({"mutants": ["tavola-embedded/mutants"], "default": []}), json!([])),
            [""; 0]
        );
        for features in
            [json!({"default": ["mutants"]}), json!({"extra": ["tavola-embedded?/mutants"]})]
        {
            assert_eq!(problems(features, json!([])).len(), 1);
        }
        assert_eq!(
            problems(json!({}), json!(["mutants"])),
            ["must not ask tavola-embedded for mutants"]
        );
    }
}
