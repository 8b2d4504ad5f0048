/// When a change of a setting takes effect: at SIGHUP or at a restart.
package enum ChangeMoment: Hashable, Sendable {
    /// At SIGHUP, when the daemon reads its settings again.
    case atOnce
    /// The change takes effect at the next start of the daemon, as for keys that declare no moment.
    case atRestart
}

/// Compares one setting of the new group (`wished`) with the current group (`present`). A change that can take effect
/// now is copied into the current group. The function returns the changed keys that need a restart, relative to the
/// setting.
typealias SettingReload<Group> = @Sendable (_ wished: Group, _ present: inout Group, ChangeMoment) -> [String]

extension SettingsGroup {
    /// Copies from `wished` each changed setting that can take effect without a restart.
    ///
    /// - Returns: the changed keys that need a restart, such as `log.format`; for an added or removed named group, the
    ///   key of its setting.
    package mutating func reload(from wished: Self) -> [String] { reload(from: wished, .atRestart) }

    mutating func reload(from wished: Self, _ moment: ChangeMoment) -> [String] {
        var waiting: [String] = []
        for setting in Self.schema {
            waiting += setting.reload(wished, &self, setting.ownMoment ?? moment).map { setting.key + $0 }
        }
        return waiting
    }

    /// The keys whose changes take effect at SIGHUP, as a Markdown text such as `` `auth`, `limits` (except
    /// `limits.memory`) ``.
    package static var keysTakenAtOnce: String {
        var parts: [String] = []
        Self().outline.collectTakenAtOnce(prefix: "", &parts)
        return parts.joined(separator: ", ")
    }
}

extension Setting {
    static func reload<Value: Equatable & Sendable>(of path: SettingPath<Group, Value>) -> SettingReload<Group> {
        { wished, present, moment in
            guard present[keyPath: path] != wished[keyPath: path] else { return [] }
            switch moment {
            case .atOnce:
                present[keyPath: path] = wished[keyPath: path]
                return []
            case .atRestart: return [""]
            }
        }
    }
}

extension Setting {
    /// Makes a reload for a setting of named groups. If no group was added or removed, the declaration of each key
    /// decides when its change takes effect.
    static func reload<Inner: SettingsGroup & Equatable>(
        ofEach path: SettingPath<Group, [String: Inner]>
    ) -> SettingReload<Group> {
        { wished, present, moment in
            let (new, old) = (wished[keyPath: path], present[keyPath: path])
            guard new != old else { return [] }
            guard moment == .atRestart else {
                present[keyPath: path] = new
                return []
            }
            guard Set(new.keys) == Set(old.keys) else { return [""] }
            var waiting: [String] = []
            for (name, group) in new.sorted(by: { $0.key < $1.key }) {
                guard var own = old[name] else { continue }
                waiting += own.reload(from: group, moment).map { ".\(name).\($0)" }
                present[keyPath: path][name] = own
            }
            return waiting
        }
    }
}

extension [SettingLine] {
    fileprivate func collectTakenAtOnce(prefix: String, _ parts: inout [String]) {
        for line in self {
            let key = prefix + line.key
            if line.moment == .atOnce {
                let others = line.outline.keys(taken: .atRestart, prefix: key)
                parts.append("`\(key)`" + (others.isEmpty ? "" : " (except \(others.joined(separator: ", ")))"))
            } else if case .group(let inner) = line.outline {
                inner.collectTakenAtOnce(prefix: key + ".", &parts)
            }
        }
    }
}

extension SettingOutline {
    /// The keys of a group whose changes take effect at the given moment.
    fileprivate func keys(taken moment: ChangeMoment, prefix: String) -> [String] {
        guard case .group(let inner) = self else { return [] }
        return inner.flatMap { line in
            let key = "\(prefix).\(line.key)"
            return line.moment == moment ? ["`\(key)`"] : line.outline.keys(taken: moment, prefix: key)
        }
    }
}
