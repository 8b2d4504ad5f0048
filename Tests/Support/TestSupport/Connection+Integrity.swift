package import Storage

extension Connection {
    /// The problems that `PRAGMA integrity_check` reports; empty for an intact database.
    package func integrityProblems() throws(SQLError) -> [String] {
        var problems: [String] = []
        do {
            let check = try statement("PRAGMA integrity_check")
            while try check.step() { problems.append(check.text(0)) }
        } catch {
            // For some kinds of damage, the integrity check itself fails.
            guard case .corrupt = error.code else { throw error }
            problems.append(error.message)
        }
        return problems == ["ok"] ? [] : problems
    }
}
