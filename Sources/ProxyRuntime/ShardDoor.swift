package import Addressing
package import ProxyCore
package import Registration
package import Timekeeping

/// The one way by which services, operators and the daemon reach the engine.
///
/// What is asked waits until the engine has done what it is at, and is answered where it was asked, after what follows
/// from it was ordered. What one asker orders is done in its order.
package struct ShardDoor: Sendable {
    /// Whose state is meant: it decides which shard is asked.
    package enum Subject: Sendable {
        case user(AddressOfRecord)
        case device(DeviceID)
        /// What every shard knows alike, or what is not found by user or device.
        case everything
    }

    private let shard: ProxyShard

    package init(to shard: ProxyShard) { self.shard = shard }

    /// The place where a shard is chosen. There is one.
    private func shard(of subject: Subject) -> ProxyShard {
        switch subject {
        case .user, .device, .everything: shard
        }
    }

    /// Asks or orders. What is checked and what is done upon it belong into one question: others may come in between two.
    package func ask<Answer: Sendable>(
        _ subject: Subject, _ question: @Sendable (ProxyEngine, Moment) -> Answer
    ) async -> Answer {
        await shard(of: subject).enter(question)
    }

    /// Tells the engine of a device of a user, or of its removal; returns when that is on the disk, or refused.
    package func report(
        of user: AddressOfRecord, _ report: @escaping @Sendable (ProxyEngine, ReportTicket, Moment) -> Void
    ) async -> ReportResult {
        await shard(of: .user(user)).report(report)
    }
}
