package import Addressing
package import ProxyCore
package import PushDelivery
import Reactor
package import Registration
package import Timekeeping

/// The only way by which services, operators and the daemon reach the engine.
///
/// A question waits until the engine has finished its current work, and is answered after the resulting actions were
/// run. The questions of one caller are processed in their order.
package struct ShardDoor: Sendable {
    /// The subject of a question. It decides which shard is asked.
    package enum Subject: Sendable {
        case user(AddressOfRecord)
        case device(DeviceID)
        /// Values that every shard knows, or that cannot be found by a user or a device.
        case everything
    }

    private let shard: ProxyShard

    package init(to shard: ProxyShard) { self.shard = shard }

    /// The only place where a shard is chosen. So far only one shard exists.
    private func shard(of subject: Subject) -> ProxyShard {
        switch subject {
        case .user, .device, .everything: shard
        }
    }

    /// Asks the engine a question, or gives it an order. A check and the action that depends on it belong into the same
    /// question, because another question can come between two.
    package func ask<Answer: Sendable>(
        _ subject: Subject, _ question: @Sendable (ProxyEngine, Moment) -> Answer
    ) async -> Answer {
        await shard(of: subject).enter(question)
    }

    /// Stops accepting new calls: the daemon is about to stop.
    ///
    /// - Returns: the number of active calls.
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
