package import Addressing
package import Bytes
package import ProxyCore
package import PushDelivery
import PushPlanning
import Reactor
package import Registration
package import Timekeeping

/// The only way from services, operators and the daemon to the engine.
///
/// A question enters the engine when its current work is finished, and is answered when the resulting actions were run.
/// The questions of one caller are processed in their order.
package struct ShardDoor: Sendable {
    /// The user or device that a question is about, which selects the shard that can answer.
    package enum Subject: Sendable {
        case user(AddressOfRecord)
        case device(DeviceID)
        /// A question for any shard: all shards know the answer, or neither a user nor a device identifies the shard.
        case everything
    }

    private let shard: ProxyShard

    package init(to shard: ProxyShard) { self.shard = shard }

    /// Chooses the shard for a subject. At present, only one shard exists.
    private func shard(of subject: Subject) -> ProxyShard {
        switch subject {
        case .user, .device, .everything: shard
        }
    }

    /// Asks the engine a question, or gives it an order. Put a check and the action that depends on it into the same
    /// question, because another question can be processed between two questions.
    package func ask<Answer: Sendable>(
        _ subject: Subject, _ question: @Sendable (ProxyEngine, Moment) -> Answer
    ) async -> Answer {
        await shard(of: subject).enter(question)
    }

    /// Refuses new calls from now on, because the daemon is about to stop.
    ///
    /// - Returns: the number of calls that wait or ring.
    package func drain() async -> Int {
        shard.isDraining.withLock { $0 = true }
        return await ask(.everything) { engine, _ in
            engine.drainBegins()
            return engine.callsUnderWay
        }
    }

    /// Whether ``drain()`` was called. Any thread may read this value.
    package var isDraining: Bool { shard.isDraining.withLock { $0 } }

    /// Whether the provider accepts a push to this token. The push that tests the token is invisible to the user.
    package func canBePushed(_ token: PushToken) async -> Bool { await shard(of: .everything).canBePushed(token) }

    /// Sends test pushes.
    ///
    /// - Returns: the pushes, and the records of the sent pushes; `nil` if too many other test pushes wait.
    package func sendTestPush(to target: TestPushTarget) async -> (plan: TestPushPlan, records: [TimelineRecord])? {
        await shard(of: .everything).sendTestPush(to: target)
    }

    /// Checks the password of a user. If a source of users has to be asked, the answer comes when it has answered.
    package func login(
        _ name: ByteString, in domain: ByteString?, _ password: ByteString, from source: IPAddress
    ) async -> ProxyEngine.LoginVerdict {
        await shard(of: .everything).login(name, in: domain, password, from: source)
    }

    /// Reports a new or removed device of a user to the engine. Returns when the report is persisted or refused.
    package func report(
        of user: AddressOfRecord, _ report: @escaping @Sendable (ProxyEngine, ReportTicket, Moment) -> Void
    ) async -> ReportResult {
        await shard(of: .user(user)).report(report)
    }
}
