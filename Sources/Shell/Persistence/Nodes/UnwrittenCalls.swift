import Calling
import ProxyCore

/// The calls of phones, and the changes of calls, that the database of a cluster does not have yet, because it did not
/// answer. They are written with the next questions.
struct UnwrittenCalls {
    private(set) var kept: [HeldInvite] = []
    private(set) var changed: [HeldCallKey: [UInt8]] = [:]
    /// The maximum numbers of INVITEs and of changed calls. The calls beyond the maximum end with their node.
    private static let most = 10_000

    var isEmpty: Bool { kept.isEmpty && changed.isEmpty }

    mutating func add(_ invites: [HeldInvite], _ changes: [HeldCallKey: [UInt8]]) {
        kept += invites.prefix(max(0, Self.most - kept.count))
        for (call, bytes) in changes where changed[call] != nil || changed.count < Self.most {
            changed[call, default: []] += bytes
        }
    }

    /// Drops a call that has ended.
    mutating func ended(_ call: HeldCallKey) {
        guard !isEmpty else { return }
        kept.removeAll { $0.key == call }
        changed[call] = nil
    }
}
