package import PushDelivery
package import Registration

/// The tables of the engine's machines, to look at. Only their machines change them.
extension ProxyEngine {
    package var bindings: BindingTable { _read { yield registrar.bindings } }
    package var users: UserDirectory { _read { yield registrar.users } }
    package var buckets: BucketTable { _read { yield ledger.buckets } }
    package var unread: UnreadPushes { _read { yield ledger.unread } }
    package var timeline: PushTimeline { _read { yield ledger.timeline } }
}
