import AccessLimits
import Addressing
import Bytes
import Collections
import LocationService
import Persistence
import ProxyCore
import PushDelivery
import PushPlanning
import Reactor
import Registration
import Telemetry
import Timekeeping

/// Questions and orders of services and operators that wait for an answer.
extension ProxyShard {
    // MARK: Reports

    /// Reports a new or removed device to the engine, and returns when the report is persisted or refused. Only the
    /// ``ShardDoor`` calls ``report(_:)``.
    func report(_ report: @escaping ShardWaiters.Report) async -> ReportResult {
        await withCheckedContinuation { reporter in
            waiters.queuedReports.append((reporter, report))
            startQueuedReports()
        }
    }

    // MARK: Dry runs

    /// Whether the provider accepts a push to the given token. Only the ``ShardDoor`` calls ``canBePushed(_:)``.
    func canBePushed(_ token: PushToken) async -> Bool {
        await withCheckedContinuation { asker in
            let ticket = DryRunTicket(waiters.nextNumber())
            waiters.dryRuns[ticket] = asker
            engine.dryRunAsked(token, ticket, now: loop.moment)
            runActions()
        }
    }

    // MARK: Logins

    /// Reads a user from the store of several nodes. Only the ``ShardDoor`` calls ``read(_:)``.
    func read(_ user: AddressOfRecord) async -> Bool {
        await withCheckedContinuation { asker in
            let ticket = LookTicket(waiters.nextNumber())
            waiters.looks[ticket] = asker
            engine.lookUp(user, for: ticket)
            runActions()
        }
    }

    /// Reads an account from the store, while several nodes use the store. Otherwise the engine knows all accounts.
    ///
    /// - Returns: false if the store does not answer.
    func readAccount(_ name: ByteString, in realm: ByteString) async -> Bool {
        guard let shared = services.shared else { return true }
        let account = UserSubject.account(name: name, realm: realm)
        let users = await withCheckedContinuation { waiter in
            shared.read([account], waiting: nil) { waiter.resume(returning: $0) }
        }
        guard let users else { return false }
        engine.accountsRead(users.accounts, askedFor: [account], now: loop.moment)
        return true
    }

    /// Checks the password of a user. Only the ``ShardDoor`` calls `login`.
    func login(
        _ name: ByteString, in domain: ByteString?, _ password: ByteString, from source: IPAddress
    ) async -> ProxyEngine.LoginVerdict {
        // A source with too many wrong passwords causes no question to the store.
        if services.shared != nil,
            let account = engine.accountToRead(for: name, in: domain, from: source, now: loop.moment),
            await !readAccount(account.name, in: account.realm),
            engine.users.user(named: account.name, realm: account.realm) == nil
        {
            return .unavailable
        }
        let first = engine.login(name, in: domain, password, from: source, hasWaited: false, now: loop.moment)
        guard case .asking(let user) = first else {
            runActions()
            return first
        }
        await withCheckedContinuation { waiter in
            let ticket = LoginTicket(waiters.nextNumber())
            waiters.logins[ticket] = waiter
            engine.loginWaits(ticket, for: user, from: source)
            runActions()
        }
        defer { runActions() }
        return engine.login(name, in: domain, password, from: source, hasWaited: true, now: loop.moment)
    }

    // MARK: Test pushes

    /// Sends test pushes, and waits until all test pushes have ended. Only ``ShardDoor`` calls ``sendTestPush(to:)``.
    func sendTestPush(to target: TestPushTarget) async -> (plan: TestPushPlan, records: [TimelineRecord])? {
        let ticket = TestPushTicket(waiters.nextNumber())
        // The entry in `tests` comes before the orders, because a push can end while it is being ordered.
        waiters.tests[ticket] = ShardWaiters.Test(missing: 0)
        defer { waiters.tests[ticket] = nil }
        guard let plan = engine.testPushOrdered(target, ticket, now: loop.moment) else { return nil }
        waiters.tests[ticket]?.missing = plan.sent
        runActions()
        let records = await withCheckedContinuation { waiter in
            guard let test = waiters.tests[ticket], test.records.count < test.missing else {
                return waiter.resume(returning: waiters.tests[ticket]?.records ?? [])
            }
            waiters.tests[ticket]?.waiter = waiter
        }
        return (plan, records)
    }
}
