package import Addressing
package import ProxyCore
package import PushDelivery
import Reactor
package import Registration
package import Timekeeping

/// The one way by which services, operators and the daemon reach the engine.
///
/// A question waits until the engine has finished its present work, and is answered after the actions that follow from
/// it were run. The questions of one asker are taken in their order.
package struct ShardDoor: Sendable {
    /// Whose state a question is about; it decides which shard is asked.
    package enum Subject: Sendable {
        case user(AddressOfRecord)
        case device(DeviceID)
        /// What every shard knows, or what cannot be found by a user or a device.
        case everything
    }

    private let shard: ProxyShard

    package init(to shard: ProxyShard) { self.shard = shard }

    /// The one place where a shard is chosen; so far there is only one to choose.
    private func shard(of subject: Subject) -> ProxyShard {
        switch subject {
        case .user, .device, .everything: shard
        }
    }

    /// Asks the engine something, or orders it to do something. A check and what is done upon it belong into the same
    /// question, because others may come in between two.
    package func ask<Answer: Sendable>(
        _ subject: Subject, _ question: @Sendable (ProxyEngine, Moment) -> Answer
    ) async -> Answer {
        await shard(of: subject).enter(question)
    }

    /// No calls are begun any more: the daemon is about to end.
    ///
    /// - Returns: how many are under way.
    package func drain() async -> Int {
        shard.isDraining.withLock { $0 = true }
        return await ask(.everything) { engine, _ in
            engine.drainBegins()
            return engine.callsUnderWay
        }
    }

    /// Whether ``drain()`` was called. From any thread.
    package var isDraining: Bool { shard.isDraining.withLock { $0 } }

    /// Whether the provider takes a push to that token, which nobody notices.
    package func canBePushed(_ token: PushToken) async -> Bool { await shard(of: .everything).canBePushed(token) }

    /// Tells the engine of a device of a user, or of its removal; returns when that is on the disk, or refused.
    package func report(
        of user: AddressOfRecord, _ report: @escaping @Sendable (ProxyEngine, ReportTicket, Moment) -> Void
    ) async -> ReportResult {
        await shard(of: .user(user)).report(report)
    }
}
