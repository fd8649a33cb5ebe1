//! What each request of the Queue service asks of a credential: the service's table of operations
//! and permissions, once.

use super::name::QueueName;
use super::request::QueueRequest;
use crate::grant::{AccessError, Demand, Letters, Resource, Role};
use crate::service_kind::ServiceKind;

/// Hands the demand of a request to `check`.
///
/// # Errors
/// What `check` says.
pub fn demands(
    request: &QueueRequest,
    check: &mut dyn FnMut(&Demand<'_>) -> Result<(), AccessError>,
) -> Result<(), AccessError> {
    check(&demand_of(request))
}

fn demand_of(request: &QueueRequest) -> Demand<'_> {
    match request {
        QueueRequest::ListQueues(_) => {
            demand(Resource::Containers, Letters::All("l"), Some("s"), Some(Role::Reader))
        }
        QueueRequest::CreateQueue(queue, _) => {
            on_queue(queue, Letters::Any("cw"), Role::Contributor)
        }
        QueueRequest::DeleteQueue(queue) => on_queue(queue, Letters::All("d"), Role::Contributor),
        // A signature for the queue opens its metadata as it opens a look at its messages.
        QueueRequest::GetMetadata(queue) => {
            let resource = Resource::Objects(queue.as_str());
            demand(resource, Letters::All("r"), Some("c"), Some(Role::Reader))
        }
        QueueRequest::SetMetadata(queue, _) => {
            on_queue(queue, Letters::All("w"), Role::Contributor)
        }
        // Only an owner may see or set policies, and the service has none for tokens.
        QueueRequest::GetPolicies(queue) => {
            demand(Resource::Policies(queue.as_str()), Letters::All("r"), None, None)
        }
        QueueRequest::SetPolicies(queue, _) => {
            demand(Resource::Policies(queue.as_str()), Letters::All("w"), None, None)
        }
        QueueRequest::PutMessage { queue, .. } => {
            on_messages(queue, Letters::All("a"), Role::Contributor)
        }
        QueueRequest::GetMessages { queue, .. } => {
            on_messages(queue, Letters::All("p"), Role::Contributor)
        }
        QueueRequest::DeleteMessage { queue, .. } => {
            on_messages(queue, Letters::All("p"), Role::Contributor)
        }
        QueueRequest::UpdateMessage { queue, .. } => {
            on_messages(queue, Letters::All("u"), Role::Contributor)
        }
        QueueRequest::PeekMessages { queue, .. } => {
            on_messages(queue, Letters::All("r"), Role::Reader)
        }
        // It deletes what lies in the queue, and no signature for a queue alone has the letter.
        QueueRequest::ClearMessages(queue) => {
            on_messages(queue, Letters::All("d"), Role::Contributor)
        }
        QueueRequest::GetServiceProperties | QueueRequest::GetServiceStats => {
            demand(Resource::Service, Letters::All("r"), Some("s"), Some(Role::Reader))
        }
        // Its properties say which web pages may use the account, on behalf of every user.
        QueueRequest::SetServiceProperties(_) => {
            demand(Resource::Service, Letters::All("w"), Some("s"), Some(Role::Administrator))
        }
    }
}

fn demand<'a>(
    resource: Resource<'a>,
    letters: Letters,
    resource_types: Option<&'static str>,
    role: Option<Role>,
) -> Demand<'a> {
    Demand { service: ServiceKind::Queue, resource, letters, resource_types, role, key: None }
}

/// A queue as such.
fn on_queue(queue: &QueueName, letters: Letters, role: Role) -> Demand<'_> {
    demand(Resource::Container(queue.as_str()), letters, Some("c"), Some(role))
}

fn on_messages(queue: &QueueName, letters: Letters, role: Role) -> Demand<'_> {
    demand(Resource::Objects(queue.as_str()), letters, Some("o"), Some(role))
}
