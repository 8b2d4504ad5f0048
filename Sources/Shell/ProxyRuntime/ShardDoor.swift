package import Addressing
package import Bytes
package import ProxyCore
package import PushDelivery
import PushPlanning
import Reactor
package import Registration
package import Timekeeping

/// The only interface through which services, operators and the daemon ask the engine.
///
/// A query enters the engine after the engine's current work. The answer to a query comes after the query's actions
/// have run. The queries of one service or operator are processed in order.
package struct ShardDoor: Sendable {
    /// The user or device of a query; the subject selects the shard that can answer.
    package enum Subject: Sendable {
        case user(AddressOfRecord)
        case device(DeviceID)
        /// The query is for any shard, because no user or device selects a shard.
        case everything
    }

    private let shard: ProxyShard

    package init(to shard: ProxyShard) { self.shard = shard }

    /// Chooses the shard for a subject; at present, only one shard exists.
    private func shard(of subject: Subject) -> ProxyShard {
        switch subject {
        case .user, .device, .everything: shard
        }
    }

    /// Sends the engine a query or an order. A check and the action that depends on it belong into one query, because
    /// other queries may be processed in between.
    package func ask<Answer: Sendable>(
        _ subject: Subject, _ question: @Sendable (ProxyEngine, Moment) -> Answer
    ) async -> Answer {
        await shard(of: subject).enter(question)
    }

    /// Returns a user of the store. While several nodes use the store, another node may have changed the user, so the
    /// user is read from the store first.
    package func user(named name: ByteString, realm: ByteString) async -> DigestUser? {
        _ = await shard(of: .everything).readAccount(name, in: realm)
        return await ask(.everything) { engine, _ in engine.users.user(named: name, realm: realm) }
    }

    /// Reads a user from the store of several nodes, so that later questions about the user see the changes of all nodes.
    ///
    /// - Returns: false if the store does not answer, so that later questions see the last known state.
    @discardableResult
    package func read(_ user: AddressOfRecord) async -> Bool { await shard(of: .user(user)).read(user) }

    /// Makes the engine refuse new calls, because the daemon is about to stop.
    ///
    /// - Returns: the number of calls that wait or ring.
    package func drain() async -> Int {
        shard.isDraining.withLock { $0 = true }
        return await ask(.everything) { engine, _ in
            engine.drainBegins()
            return engine.callsUnderWay
        }
    }

    /// Whether ``drain()`` was called; any thread can read ``isDraining``.
    package var isDraining: Bool { shard.isDraining.withLock { $0 } }

    /// Whether the provider accepts a push to the given token. The user does not see the silent push that tests the
    /// token.
    package func canBePushed(_ token: PushToken) async -> Bool { await shard(of: .everything).canBePushed(token) }

    /// Sends test pushes, and waits until all test pushes have ended.
    ///
    /// - Returns: the planned pushes, and the records of the sent pushes; `nil` if too many test pushes wait.
    package func sendTestPush(to target: TestPushTarget) async -> (plan: TestPushPlan, records: [TimelineRecord])? {
        await shard(of: .everything).sendTestPush(to: target)
    }

    /// Checks the password of a user. If a source of users must be asked, ``login(_:in:_:from:)`` returns after the
    /// source's answer.
    package func login(
        _ name: ByteString, in domain: ByteString?, _ password: ByteString, from source: IPAddress
    ) async -> ProxyEngine.LoginVerdict {
        await shard(of: .everything).login(name, in: domain, password, from: source)
    }

    /// Reports a new or removed device of a user to the engine, and returns when the report is persisted or refused.
    package func report(
        of user: AddressOfRecord, _ report: @escaping @Sendable (ProxyEngine, ReportTicket, Moment) -> Void
    ) async -> ReportResult {
        await shard(of: .user(user)).report(report)
    }
}
