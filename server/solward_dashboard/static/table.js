// What a table does in the browser. Its rows, their order and their pages come from the dashboard.
window.solwardTable = (() => {
  const PHONE = 640;
  // Names are other people's words: they become text, never markup.
  const part = (data, name) => {
    const href = data.links?.[name];
    const made = document.createElement(href ? "a" : "span");
    made.textContent = data[name] ?? "";
    made.className = `sw-in-cell sw-in-${name} ${data.tones?.[name] ?? ""}`;
    // The table is one stop of the Tab key: Enter on the cell follows its link.
    if (href) Object.assign(made, {href, tabIndex: -1});
    return made;
  };
  const fit = (api, width) => {
    const context = api.getGridOption("context");
    context.width = width || context.width;
    if (!context.width) return;
    const wide = context.width >= PHONE;
    const shown = wide ? context.columns : ["lines"];
    api.setColumnsVisible(["lines", ...context.every].filter(each => !shown.includes(each)), false);
    api.setColumnsVisible(shown, true);
    api.setGridOption("headerHeight", wide ? 36 : 0);
    api.setGridOption("rowHeight", wide ? 34 : 60);
  };
  addEventListener("popstate", () => emitEvent("solward_address", location.search));
  return {
    cell: ({data, colDef}) => part(data, colDef.field),
    lines: ({data, context}) => {
      const made = document.createElement("div");
      made.className = "sw-two-lines";
      for (const names of context.lines) {
        const line = made.appendChild(document.createElement("div"));
        for (const each of names) if (data[each]) line.append(part(data, each));
      }
      return made;
    },
    // The dashboard sorts all rows, not only those of this page.
    keepOrder: () => 0,
    sorted: ({api, source}) => {
      if (source !== "uiColumnSorted") return;
      const {colId, sort} = api.getColumnState().find(each => each.sort) ?? {};
      emitEvent("solward_sort", colId ? (sort === "desc" ? "-" : "") + colId : "");
    },
    selected: ({api}) => emitEvent("solward_selection", api.getSelectedNodes().map(each => each.id)),
    choose: (api, columns) => {
      api.getGridOption("context").columns = columns;
      fit(api);
    },
    fitted: ({api, clientWidth}) => fit(api, clientWidth),
    // Inside of the table the arrows go from cell to cell. Tab goes on from the element before or
    // after it.
    leave: ({backwards}) => {
      document.querySelector(backwards ? ".sw-before-table" : ".sw-behind-table")
        .focus({preventScroll: true});
      return false;
    },
    // The focus stays with its row when others move it to another place.
    focused: ({api, context, rowIndex}) => {
      context.focused = api.getDisplayedRowAtIndex(rowIndex ?? -1)?.id;
    },
    moved: ({api, context}) => {
      const cell = api.getFocusedCell();
      const row = cell && context.focused
        ? api.getRowNode(context.focused)?.rowIndex ?? null : null;
      if (row === null || row === cell.rowIndex) return;
      if (document.activeElement?.closest(".ag-root")) api.setFocusedCell(row, cell.column);
    },
    pressed: ({event}) => {
      if (event.key === "Enter") event.target.querySelector("a")?.click();
    },
  };
})();
