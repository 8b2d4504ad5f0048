package import PushDelivery
package import Registration

/// Read access to the tables of the engine's machines. Only the machines change their tables.
extension ProxyEngine {
    package var bindings: BindingTable { _read { yield registrar.bindings } }
    package var users: UserDirectory { _read { yield registrar.users } }
    package var buckets: BucketTable { _read { yield ledger.buckets } }
    package var unread: UnreadPushes { _read { yield ledger.unread } }
    package var timeline: PushTimeline { _read { yield ledger.timeline } }
}
