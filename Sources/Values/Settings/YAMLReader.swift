/// The size limits of a YAML document.
package struct YAMLLimits: Sendable {
    package var bytes = 1 << 20
    package var depth = 16
    package var nodes = 100_000

    package init() {}
}

extension YAMLNode {
    /// Reads a YAML document in UTF-8; an empty document is a null value.
    ///
    /// Duplicate keys, keys that are not text, anchors, aliases, tags and second documents are errors.
    ///
    /// - Parameters:
    ///   - bytes: the bytes of the document.
    ///   - file: the file name for problems.
    ///   - limits: the size limits of the document.
    /// - Returns: the root of the document.
    /// - Throws: all errors, up to the first after which reading cannot continue.
    package static func read(
        _ bytes: [UInt8], file: String, limits: YAMLLimits = YAMLLimits()
    ) throws(SettingsError) -> YAMLNode {
        var problems = SettingsProblems(file: file)
        guard bytes.count <= limits.bytes else {
            let message = "expected at most \(limits.bytes) bytes, found \(bytes.count)"
            throw SettingsError([SettingsProblem(file: file, position: nil, message: message)])
        }
        var root = YAMLNode(.scalar("", isPlain: true), at: .start)
        do {
            var reader = YAMLReader(events: try YAMLEvents(bytes), limits: limits)
            root = try reader.document(&problems)
        } catch {
            problems.report(error.message, at: error.position)
        }
        try problems.throwIfAny()
        return root
    }
}

/// Builds YAML nodes from the events of libyaml.
private struct YAMLReader: ~Copyable {
    var events: YAMLEvents
    let limits: YAMLLimits
    var nodes = 0

    mutating func document(_ problems: inout SettingsProblems) throws(YAMLSyntaxError) -> YAMLNode {
        var root = YAMLNode(.scalar("", isPlain: true), at: .start)
        var documents = 0
        while true {
            let next = try events.next()
            switch next.event {
            case .streamEnd: return root
            case .streamStart, .documentEnd: continue
            case .documentStart:
                documents += 1
                guard documents == 1 else {
                    throw YAMLSyntaxError(position: next.position, message: "expected one document, found a second")
                }
                root = try node(from: events.next(), depth: 1, &problems)
            case .scalar, .sequenceStart, .sequenceEnd, .mappingStart, .mappingEnd, .alias:
                throw YAMLSyntaxError(position: next.position, message: "expected a document")
            }
        }
    }

    private mutating func node(
        from start: YAMLMarkedEvent, depth: Int, _ problems: inout SettingsProblems
    ) throws(YAMLSyntaxError) -> YAMLNode {
        nodes += 1
        guard nodes <= limits.nodes else {
            throw YAMLSyntaxError(position: start.position, message: "expected at most \(limits.nodes) values")
        }
        guard depth <= limits.depth else {
            throw YAMLSyntaxError(position: start.position, message: "expected at most \(limits.depth) levels")
        }
        if start.isDecorated { problems.report("anchors (&) and tags (!) are not supported", at: start.position) }
        switch start.event {
        case .scalar(let text, let isPlain):
            return YAMLNode(.scalar(text, isPlain: isPlain), at: start.position)
        case .sequenceStart:
            return YAMLNode(.sequence(try items(depth: depth, &problems)), at: start.position)
        case .mappingStart:
            return YAMLNode(.mapping(try entries(depth: depth, &problems)), at: start.position)
        case .alias:
            problems.report("aliases (*) are not supported", at: start.position)
            return YAMLNode(.scalar("", isPlain: true), at: start.position)
        case .sequenceEnd, .mappingEnd, .documentStart, .documentEnd, .streamStart, .streamEnd:
            throw YAMLSyntaxError(position: start.position, message: "expected a value")
        }
    }

    private mutating func items(
        depth: Int, _ problems: inout SettingsProblems
    ) throws(YAMLSyntaxError) -> [YAMLNode] {
        var items: [YAMLNode] = []
        while true {
            let next = try events.next()
            if case .sequenceEnd = next.event { return items }
            items.append(try node(from: next, depth: depth + 1, &problems))
        }
    }

    private mutating func entries(
        depth: Int, _ problems: inout SettingsProblems
    ) throws(YAMLSyntaxError) -> [YAMLEntry] {
        var entries: [YAMLEntry] = []
        var lines: [String: Int] = [:]
        while true {
            let next = try events.next()
            if case .mappingEnd = next.event { return entries }
            let key = try node(from: next, depth: depth + 1, &problems)
            let value = try node(from: events.next(), depth: depth + 1, &problems)
            guard let name = key.text else {
                problems.report("expected a key, found \(key.found)", at: key.position)
                continue
            }
            if let line = lines.updateValue(key.position.line, forKey: name) {
                problems.report("duplicate key \(YAMLText.shownInError(name)), first on line \(line)", at: key.position)
            } else {
                entries.append(YAMLEntry(key: name, keyPosition: key.position, value: value))
            }
        }
    }
}
