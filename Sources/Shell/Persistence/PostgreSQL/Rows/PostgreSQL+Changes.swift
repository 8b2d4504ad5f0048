import Messaging
import PostgreSQLClient
import ProxyCore
import PushDelivery
import PushPlanning
import Registration

/// Chooses the statements of each change.
extension PostgreSQLTables: StoreTables {
    /// Sends the statements of one change.
    ///
    /// - Returns: the number of the statement that changes no row if the row to change does not exist; `nil` if the
    ///   change needs no row.
    func apply(_ change: RowChange) throws(PostgreSQLError) -> Int? {
        switch change {
        case .engine(let change): try write(change)
        case .timeline(let change): try write(change)
        case .service(.pushMark(let code, let device, let mark, let date)):
            return try note(mark, of: code, device: device, at: date)
        case .service(.useProvisionLink(let use)): return try apply(use)
        case .service(.addKey(let key)): return try write(key)
        case .service(.addApp(let app)): return try write(app)
        case .service(let change): try write(change)
        case .pruneTimeline(let date, let count, let limit):
            try pruneTimeline(before: date, keeping: count, limit: limit)
            try pruneRefused(before: date)
        case .countWakes(let limit): try countWakes(limit: limit)
        case .pruneWakes(let day): try pruneWakes(beforeDay: day)
        }
        return nil
    }

    func keep(_ changes: [ServiceChange]) throws {
        try transaction { () throws(PostgreSQLError) in
            for change in changes { _ = try apply(.service(change)) }
            try raiseRevisions(of: Set(changes.compactMap(\.operatorTable)))
        }
    }

    func write(_ changes: [StoredBucketChange]) throws {
        try transaction { () throws(PostgreSQLError) in
            for change in changes { _ = try apply(.engine(.bucket(change))) }
        }
    }

    private func write(_ change: EngineChange) throws(PostgreSQLError) {
        switch change {
        case .binding(.upsert(let row)): try write(row)
        case .binding(.refresh(let row)): try refresh(row)
        case .binding(.delete(let id)): try removeBinding(id)
        case .binding(.deleteContact(let id, let contact)): try removeBinding(id, contact: contact)
        case .binding(.expire(let id, let date)): try removeBinding(id, registeredAt: date)
        case .bucket(let change):
            switch change.change {
            case .upsert(let entry): try write(entry, of: change.aor)
            case .delete(let callRef): try removeBucketEntry(callRef)
            }
        case .message(.insert(let message)): try write(message)
        case .message(.left(let id, let devices)): try writeDevices(devices, ofMessage: id)
        case .message(.delete(let id)): try removeMessage(id)
        case .deadToken(let dead): try write(dead)
        case .dialogRenewed(let digest, let date): try write(DialogRenewal(digest: digest, until: date))
        case .userRules(let row): try write(row)
        }
    }

    private func write(_ change: TimelineChange) throws(PostgreSQLError) {
        switch change {
        case .record(let record) where record.refusal != nil: try writeRefused(record)
        case .record(let record): try write(record)
        case .pushesRead(let codes, let device, let date):
            for code in codes { _ = try note(.read, of: code, device: device, at: date) }
        }
    }

    private func write(_ change: ServiceChange) throws(PostgreSQLError) {
        switch change {
        case .addUser(let user):
            // A link that was made for the old password ends with the old password.
            try removeProvisionLinks(of: user.name, realm: user.realm)
            try write(user)
        case .removeUser(let name, let realm):
            try removeProvisionLinks(of: name, realm: realm)
            try removeUser(name, realm: realm)
        case .setRules(let row): try write(row)
        case .removeRules(let aor): try removeRules(of: aor)
        case .switchProvider(let provider, let state): try writeSwitch(provider, state)
        case .addKey(let key): _ = try write(key)
        case .removeKey(let name): try removeKey(name)
        case .addApp(let app): _ = try write(app)
        case .removeApp(let name): try removeApp(name)
        case .addProvisionLink(let link): try write(link)
        case .useProvisionLink(let use): _ = try apply(use)
        case .removeProvisionLinks(let name, let realm): try removeProvisionLinks(of: name, realm: realm)
        case .pruneProvisionLinks(let date, let usedBefore, let count):
            try pruneProvisionLinks(at: date, usedBefore: usedBefore, keeping: count)
        case .forgetMissedCalls(let calls): for call in calls { try removeBucketEntry(call) }
        case .forgetMessages(let ids): for id in ids { try removeMessage(id) }
        case .pruneDeadTokens(let date, let count): try pruneDeadTokens(before: date, keeping: count)
        case .pushMark(let code, let device, let mark, let date): _ = try note(mark, of: code, device: device, at: date)
        case .allPushesRead(let device, let date): try noteAllRead(by: device, at: date)
        case .deviceRequest(let request): try write(request)
        case .deviceRequestFinished(let request, let outcome, let date): try finish(request, outcome, at: date)
        case .pruneDeviceRequests(let date, let count): try pruneDeviceRequests(before: date, keeping: count)
        case .mobileDevice(let request): try writeMobileDevice(request)
        case .forgetMobileDevices(let request): try forgetMobileDevices(request)
        case .note(let key, let value): try writeNote(key, value)
        case .addSecret(let secret): try write(secret)
        case .removeSecret(let name, let date): try removeSecret(name, createdAt: date)
        case .pruneDialogRenewals(let date): try pruneDialogRenewals(before: date)
        }
    }
}
