import Control
import HTTPServices
import Persistence
import Reactor
import Telemetry
import Timekeeping

/// Reads the tables that operators change at any node of a cluster: API keys, apps, provisioning links, and the states
/// of push providers.
///
/// If this daemon changes a table during a read, the read may miss the change, so the table is read again.
///
/// - The class is `@unchecked Sendable`, because only the daemon's loop uses it.
final class OperatorTables: @unchecked Sendable {
    private let keys: APIKeyRing
    private let services: ApplicationServices
    private let provisioning: ProvisioningService
    private let operators: OperatorServices
    private let store: any ProxyStore
    private let loop: EventLoop
    private let log: Log
    /// The tables that must be read.
    private var due: Set<OperatorTable> = []
    private var isReading = false
    private var retry: LoopTimer?

    /// The pause after a failed read.
    private static let pause: Duration = .seconds(1)

    init(
        keys: APIKeyRing, services: ApplicationServices, provisioning: ProvisioningService, operators: OperatorServices,
        store: any ProxyStore, on loop: EventLoop, log: Log
    ) {
        (self.keys, self.services, self.provisioning, self.operators) = (keys, services, provisioning, operators)
        (self.store, self.loop, self.log) = (store, loop, log)
    }

    /// Reads the tables, and all tables of which an earlier read has failed.
    func changed(_ tables: Set<OperatorTable>) {
        due.formUnion(tables)
        guard !due.isEmpty, !isReading else { return }
        isReading = true
        retry?.disarm()
        loop.startTask { [weak self] _ in await self?.readAll() }
    }

    private func readAll() async {
        while let table = due.popFirst() {
            do throws(StoreError) {
                if try await !read(table) { due.insert(table) }
            } catch {
                due.insert(table)
                log.error(
                    "this node cannot read the changes of operators, so it goes on with the old keys, apps, links and providers",
                    [.object: .text(table.rawValue), .error: .text(error.description)])
                break
            }
        }
        isReading = false
        guard !due.isEmpty else { return }
        if retry == nil { retry = try? LoopTimer(on: loop) { [weak self] in self?.changed([]) } }
        retry?.arm(at: loop.now + Self.pause)
    }

    /// Reads one table; returns false if this daemon has changed the table during the read.
    private func read(_ table: OperatorTable) async throws(StoreError) -> Bool {
        let before = changes(of: table)
        switch table {
        case .keys:
            let stored = try await store.keys()
            guard changes(of: table) == before else { return false }
            keys.replace(by: stored.compactMap { APIKey($0) })
        case .apps:
            let stored = try await store.mobileApps()
            guard changes(of: table) == before else { return false }
            services.use(stored)
        case .links:
            let stored = try await store.provisionLinks()
            guard changes(of: table) == before else { return false }
            provisioning.use(stored)
        case .providers: try await operators.readProviders()
        }
        log.info("the node has read a table that operators change", [.object: .text(table.rawValue)])
        return true
    }

    private func changes(of table: OperatorTable) -> Int {
        switch table {
        case .keys: keys.changes
        case .apps: services.apps.changes
        case .links: provisioning.changes
        case .providers: 0
        }
    }
}
